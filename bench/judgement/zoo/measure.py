"""Measures one zoo program: steps with and without the cause in turn, profiles of both, the monitor's counters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.judgement.zoo.entry import Entry
from bench.judgement.zoo.runner import Nursery, Variant, ZooError
from bench.judgement.zoo.score import Named, Result, Times
from hermes.base.errors import HermesError
from hermes.inside.wire.rundir import Job, jobs
from hermes.jobs.alarms_in_step_log import detect_in
from hermes.jobs.detect.causes import Cause
from hermes.jobs.request_capture import (
    CaptureWish,
    RequestedCapture,
    answers_of_ranks,
    is_finished,
    request_capture_of_job,
)
from hermes.model.fault import Fault
from hermes.model.finding import Key, Loss
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.profiles.rules import ALL
from hermes.store.cache import Cache

BLOCK_S = 0.25
"""Approximate length in s of one repeat of a variant."""
_WARM, _MOST = 3, 300
_SETTLE = 2
_WATCH_S, _LONGEST_WATCH_S = 1.5, 8.0
_LEAST_WATCHED, _FEWEST_WATCHED = 60, 25
_ANSWER_S = 60.0
"""Seconds that steps go on until a capture is answered: thousands of short steps may pass."""
_FINDERS = {(finder.code, finder.fault): finder for rule in ALL for finder in rule.finders}
_OF_CAUSE = {finder.fault: finder.cases for finder in _FINDERS.values()}
"""A finding may name the cause of another rule, as longer steps do in which workers are started."""


def measure(nursery: Nursery, entry: Entry, folder: Path, *, repeats: int, own: bool) -> Result:
    """Measure one program completely; `own` also requests a profile by Hermes' capture. Raises `ZooError`."""
    with ExitStack() as stack:
        cured = "fixed" if entry.has_cure else "slow"
        slow = stack.enter_context(Variant(nursery, entry, "slow", folder / "slow"))
        again = stack.enter_context(Variant(nursery, entry, cured, folder / "again"))
        fixed = stack.enter_context(Variant(nursery, entry, "fixed", folder / "fixed")) if entry.has_cure else None
        times = _times(entry, slow, fixed, again, repeats)
        named = _profiled(entry, slow, folder / "profile")
        healthy = _profiled(entry, fixed, folder / "profile-fixed") if fixed else ()
    with Variant(nursery, entry, "slow", folder / "watched") as watched:
        watched_as, recorded = _watched(entry, watched, folder / "watched", times.slow_ms, own=own)
    return Result(entry=entry, times=times, named=named, cured=healthy, watched=watched_as, own=recorded)


def _times(entry: Entry, slow: Variant, fixed: Variant | None, again: Variant, repeats: int) -> Times:
    variants = [slow, *([fixed] if fixed else []), again]
    counts = {id(variant): _count(entry, variant) for variant in variants}
    walls: dict[int, list[float]] = {id(variant): [] for variant in variants}
    for turn in range(repeats):
        # Every second round runs backwards, so that effects that grow with time are shared evenly.
        for variant in variants[:: -1 if turn % 2 else 1]:
            count = counts[id(variant)]
            # A batch that a worker had ready when it was stopped costs nothing.
            variant.steps(_settle(entry))
            walls[id(variant)].append(sum(variant.steps(count)) / count / 1e6)
    return Times(
        slow=tuple(walls[id(slow)]), fixed=tuple(walls[id(fixed)]) if fixed else (), again=tuple(walls[id(again)])
    )


def _settle(entry: Entry) -> int:
    return 0 if entry.period > _SETTLE else _SETTLE


def _count(entry: Entry, variant: Variant) -> int:
    """Number of steps that fill a repeat: whole periods."""
    variant.steps(max(_WARM, entry.period))
    walls = variant.steps(max(_WARM, entry.period))
    wanted = min(_MOST, BLOCK_S * 1e9 / max(sum(walls) / len(walls), 1))
    return entry.period * max(1, round(wanted / entry.period))


def _profiled(entry: Entry, variant: Variant, folder: Path) -> tuple[Named, ...]:
    folder.mkdir()
    variant.ask(do="profile", count=entry.profiled, memory=entry.layer == "memory", out=str(folder))
    return diagnosed(folder)


def diagnosed(folder: Path) -> tuple[Named, ...]:
    """The causes that Hermes names in the captures of a folder, in order."""
    return named_in(analyze(load([folder], Cache(folder.with_name(f"{folder.name}-cache")))))


def _cases(finding: Loss, report: Report) -> tuple[str, ...]:
    """The cases of a finding's rule and cause; a finding that explains a straggler also names the straggler's case."""
    others = () if finding.fault is None or finding.key in _FINDERS else _OF_CAUSE.get(finding.fault, ())
    late = (
        case
        for one in report.findings
        if one.fault is Fault.STRAGGLER and finding.key in one.causes
        for case in one.cases
    )
    return tuple(dict.fromkeys((*finding.cases, *others, *late)))


def named_in(report: Report) -> tuple[Named, ...]:
    """The findings of a report, each with the case that the plan chose for it."""
    # Of the mean step: what comes each so many steps is in no typical one.
    step = report.plan.unprofiled
    window = step.step_ns if step else sum(split.window_ns for split in report.steps) / max(1, len(report.steps))
    taken: dict[Key, str] = {}
    for advice in report.plan.actions:
        for key in advice.answers:
            taken.setdefault(key, advice.case)
    return tuple(
        Named(
            code=finding.code,
            cases=_cases(finding, report),
            case=taken.get(finding.key, ""),
            confidence=finding.confidence,
            gain=finding.gain.expected_ns / window if window else 0.0,
        )
        for finding in report.findings
    )


def _watched(
    entry: Entry, variant: Variant, folder: Path, step_ms: float, *, own: bool
) -> tuple[tuple[str, ...], tuple[Named, ...] | None]:
    """The causes that the monitor's counters name, and those in a profile that the monitor requests."""
    variant.ask(do="watch")
    count = min(
        max(_LEAST_WATCHED, _WATCH_S * 1e3 / step_ms, 4 * entry.period), _MOST, _LONGEST_WATCH_S * 1e3 / step_ms
    )
    variant.steps(max(int(count), _FEWEST_WATCHED))
    *_, job = jobs(folder / "jobs")
    recorded = _recorded(entry, variant, job) if own else None
    variant.ask(do="unwatch")
    return tuple(dict.fromkeys(cause.name for cause in _causes(job.folder))), recorded


def _causes(folder: Path) -> Sequence[Cause]:
    return detect_in(folder, preset="robust", environment={}).causes


def _recorded(entry: Entry, variant: Variant, job: Job) -> tuple[Named, ...]:
    wish = CaptureWish(steps=entry.profiled, level="full", options={})
    try:
        asked = request_capture_of_job(job, wish, now_ns=time.time_ns())
    except HermesError as refused:
        raise ZooError(f"no capture could be asked for: {refused}", where=entry.name) from refused
    _go_through(entry, variant, asked)
    return diagnosed(asked.folder)


def _go_through(entry: Entry, variant: Variant, asked: RequestedCapture) -> None:
    """Run steps until every rank has given its last answer."""
    until = time.monotonic() + _ANSWER_S
    while time.monotonic() < until:
        variant.steps(max(asked.request.steps, 8 * entry.period))
        if is_finished(answers_of_ranks(asked)):
            return
    raise ZooError("a capture was asked for and never ended", where=entry.name)
