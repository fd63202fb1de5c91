"""What no report may say: parts that do not add up, gains beyond what is lost, words that contradict each other.

Checked on every report; one that breaks a law says so and is trusted less.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.model.plan import Advice
from hermes.model.report import Report
from hermes.model.typical_step import JobSteps
from hermes.profiles import messages
from hermes.profiles.advise import contradiction_messages as said
from hermes.profiles.advise.ranges import Known
from hermes.profiles.advise.room import TOGETHER, Room, of_host


def contradictions(report: Report) -> tuple[Message, ...]:
    """What is said that cannot be; empty for a sound report."""
    return (*_sums(report), *_gains(report), *_actions(report), *_story(report))


def contradicted(report: Report) -> tuple[Diagnostic, ...]:
    """The contradictions as what a reader must know."""
    damaged = any(note.level == "degraded" for note in report.diagnostics)
    return tuple(
        Diagnostic(
            level="degraded",
            message=messages.contradiction(what=one),
            lost=messages.LOST_TRUST,
            hint=messages.DO_MEND_INPUT if damaged else messages.DO_REPORT_DEFECT,
        )
        for one in contradictions(report)
    )


def _sums(report: Report) -> Iterator[Message]:
    for split in report.steps:
        parts = (split.compute_ns, split.exposed_comm_ns, split.copy_exposed_ns, split.free_ns)
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and (sum(known) != split.window_ns or min(known) < 0):
            yield said.parts(rank=split.rank, step=split.step, sum=sum(known), window=split.window_ns)
    for path in report.paths:
        if sum(part.ns for part in path.parts) != path.window_ns:
            yield said.path(rank=path.rank, stretch=path.stretch)
    for free in report.free:
        if sum(part.ns for part in free.parts) != free.free_ns:
            yield said.free(rank=free.rank)


def _gains(report: Report) -> Iterator[Message]:
    longest = max((split.whole_ns for split in report.steps), default=0)
    room = Room.of(JobSteps(report.steps))
    known = Known(floor=report.plan.floor, room=room)
    for one in (*report.findings, *report.plan.minor):
        if not 0 <= one.gain.low_ns <= one.gain.high_ns:
            yield said.gain_range(code=one.code, low=one.gain.low_ns, high=one.gain.high_ns)
        if one.gain.high_ns > known.most_ns(one.cost_ns, one.replay) and not one.endangers:
            yield said.gain_cost(code=one.code, gain=one.gain.high_ns, cost=one.cost_ns)
        free = room.host_ns
        if free and one.gain.replayed and of_host(one.replay) and one.gain.high_ns > free and not one.endangers:
            yield said.gain_free(code=one.code, gain=one.gain.high_ns, free=free)
        if longest and one.cost_ns > longest:
            yield said.cost_step(code=one.code, cost=one.cost_ns, step=longest)


def _actions(report: Report) -> Iterator[Message]:
    planned = {code for one in report.plan.actions for code in one.codes}
    behind = {one.code: planned & {*one.explained_by} for one in report.findings}
    to_come = [code for one in report.plan.actions for code in one.codes]
    for one in report.plan.actions:
        for code in one.codes:
            to_come.remove(code)
        causes = {cause for code in one.codes for cause in behind.get(code, ())}
        if causes and causes <= {*to_come}:
            yield said.order(code=_of(one), causes=sorted(causes))
        if one.share_high > 1:
            yield said.gain_step(code=_of(one), share=one.share_high)
    together = report.plan.combined
    if together and together.low_ns > together.step_ns:
        yield said.TOGETHER_STEP
    highs = [one.gain.high_ns for one in report.plan.actions[:TOGETHER] if one.specs]
    if together and together.high_ns > sum(highs):
        yield said.together_sum(together=together.high_ns, sum=sum(highs))


def _story(report: Report) -> Iterator[Message]:
    """Verdict and first action."""
    fault, first = report.verdict.fault, next(iter(report.plan.actions), None)
    if fault is not None and first is not None and first.fault is not fault:
        yield said.another_story(verdict=fault.message, action=(first.fault or first.about).message)


def _of(one: Advice) -> str:
    return "/".join(one.codes)
