"""What no report may say: parts that do not add up, gains beyond what is lost, words that contradict each other.

Checked on every report; one that breaks a law says so and is trusted less.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.base.errors import Diagnostic
from hermes.base.say import say
from hermes.model.fault import Fault
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.ranges import Known
from hermes.profiles.advise.room import TOGETHER, Room, of_host

_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")
_LOST_TO = re.compile(r"is lost to ([a-z -]+)", re.IGNORECASE)


def contradictions(report: Report) -> tuple[str, ...]:
    """Sentences, each about something that cannot be; empty for a sound report."""
    return (*_sums(report), *_gains(report), *_actions(report), *_words(report), *_story(report))


def contradicted(report: Report) -> tuple[Diagnostic, ...]:
    """The contradictions as what a reader must know."""
    damaged = any(note.level == "degraded" for note in report.diagnostics)
    return tuple(
        Diagnostic(
            level="degraded",
            message=f"the report contradicts itself: {one}",
            where="what is said of this input",
            lost="trust in that number and what rests on it",
            hint="mend the input first, see the other notes" if damaged else "please report it: Hermes is wrong here",
        )
        for one in contradictions(report)
    )


def _sums(report: Report) -> Iterator[str]:
    for split in report.steps:
        parts = (split.compute_ns, split.exposed_comm_ns, split.copy_exposed_ns, split.free_ns)
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and (sum(known) != split.window_ns or min(known) < 0):
            yield f"the parts of step {split.step} of rank {split.rank} are {sum(known)} of {split.window_ns} ns"
    for path in report.paths:
        if sum(part.ns for part in path.parts) != path.window_ns:
            yield f"the critical path of rank {path.rank} does not add up to its {path.stretch}"
    for free in report.free:
        if sum(part.ns for part in free.parts) != free.free_ns:
            yield f"the reasons of free time of rank {free.rank} do not add up to it"


def _gains(report: Report) -> Iterator[str]:
    longest = max((split.whole_ns for split in report.steps), default=0)
    room = Room.of(JobSteps(report.steps))
    known = Known(floor=report.plan.floor, room=room)
    for one in (*report.findings, *report.plan.minor):
        if not 0 <= one.gain.low_ns <= one.gain.high_ns:
            yield f"{one.code} gains from {one.gain.low_ns} to {one.gain.high_ns} ns"
        if one.gain.high_ns > known.most_ns(one.cost_ns, one.replay) and not one.endangers:
            yield f"{one.code} gains {one.gain.high_ns} ns and costs {one.cost_ns}"
        free = room.host_ns
        if free and one.gain.replayed and of_host(one.replay) and one.gain.high_ns > free and not one.endangers:
            yield f"{one.code} gains {one.gain.high_ns} ns on the host, and the device is free for {free}"
        if longest and one.cost_ns > longest:
            yield f"{one.code} costs {one.cost_ns} ns of a step of {longest}"


def _actions(report: Report) -> Iterator[str]:
    planned = {code for one in report.plan.actions for code in one.codes}
    behind = {one.code: planned & {*one.explained_by} for one in report.findings}
    to_come = [code for one in report.plan.actions for code in one.codes]
    for one in report.plan.actions:
        for code in one.codes:
            to_come.remove(code)
        causes = {cause for code in one.codes for cause in behind.get(code, ())}
        if causes and causes <= {*to_come}:
            yield f"{_of(one)} stands before {' and '.join(sorted(causes))}, which explain it"
        if one.share_high > 1:
            yield f"{_of(one)} gains {one.share_high:.0%} of the step"
    together = report.plan.combined
    if together and together.low_ns > together.step_ns:
        yield "the first actions together gain more than the step"
    highs = [one.gain.high_ns for one in report.plan.actions[:TOGETHER] if one.specs]
    if together and together.high_ns > sum(highs):
        yield f"the first actions gain {together.high_ns} ns together and {sum(highs)} one by one"


def _words(report: Report) -> Iterator[str]:
    for text in (report.verdict.sentence, *(say(one.message) for one in report.findings)):
        for share in _SHARE.findall(text):
            if float(share) > 100:
                yield f"{share} % in {text!r}"


def _story(report: Report) -> Iterator[str]:
    """Verdict and first action."""
    found = _LOST_TO.search(report.verdict.sentence)
    if not found or not report.plan.actions:
        return
    first = str(report.plan.actions[0].fault or "")
    named = max((str(cause) for cause in Fault if cause and found[1].startswith(str(cause))), key=len, default=first)
    if named != first:
        yield f"the verdict is about {named}, the first action about {first}"


def _of(one: Advice) -> str:
    return "/".join(one.codes)
