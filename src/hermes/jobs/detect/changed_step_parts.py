"""Finds the parts of a step that grew before an alarm, and whether a step has more work than before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hermes.base.message import Message
from hermes.inside.wire.step_record import NULL
from hermes.jobs.detect import messages as say
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.causes import Cause, Spent, grown_parts, split
from hermes.jobs.detect.read_step_logs import Steps
from hermes.model.leaf import Leaf

_PART = 0.25
"""A part with less than this share of the growth is not reported."""
_WORK = 0.10
_UNITS = ("tokens", "samples", "batches")
_HALF = 0.5
_SLOW = 1.3
_NOT_EACH = ("cpu_ns", "delay_ns", "process_cpu_ns", "minor_faults")
"""Fields counted over several steps, which say nothing about a single step."""

_FILES = frozenset({Leaf.FILE_OR_NETWORK})
_INPUT = frozenset({Leaf.INPUT_HERE, Leaf.INPUT_READ, Leaf.INPUT_WORKERS})
_OF_HOST = frozenset(
    {
        *(leaf for leaf in Leaf if leaf.part == "compute"), Leaf.ALLOCATOR, Leaf.COMPILING, Leaf.FIRST_CALL,
        Leaf.HOST_OPERATOR, Leaf.DISPATCH, Leaf.LONG_LAUNCH, Leaf.PYTHON,
    }
)  # fmt: skip
_OF_WAITS = frozenset(
    {
        Leaf.WAIT, Leaf.COMMUNICATION, Leaf.TRANSFER, Leaf.SYNCHRONISATION, Leaf.BLOCKING_COPY, Leaf.QUEUED,
        Leaf.SILENT, Leaf.PYTHON, Leaf.COMPILING, Leaf.FIRST_CALL, Leaf.NOT_RECORDED,
    }
)  # fmt: skip
LEAVES: Mapping[Spent, frozenset[Leaf]] = {
    Spent.DATA_WAIT: _INPUT | _FILES,
    Spent.DATA_WORK: _INPUT | _FILES,
    Spent.GARBAGE_COLLECTION: frozenset({Leaf.GARBAGE_COLLECTION}),
    Spent.CPU_CONTENTION: frozenset({Leaf.OTHER_WORK_ON_CORES}),
    Spent.INTERPRETER_LOCK: frozenset({Leaf.INTERPRETER_LOCK}),
    Spent.CHECKPOINT: _FILES,
    Spent.COPIES: frozenset({Leaf.BLOCKING_COPY, Leaf.EXPOSED_COPY}),
    Spent.PAGE_FAULTS: frozenset({Leaf.ALLOCATOR}),
    Spent.HOST_COMPUTE: _OF_HOST,
    Spent.BLOCKED: _OF_WAITS | _FILES,
    Spent.COLLECTIVES: frozenset({Leaf.WAIT, Leaf.COMMUNICATION, Leaf.TRANSFER}),
    Spent.STRAGGLER: frozenset({Leaf.WAIT, Leaf.COMMUNICATION}),
}
"""The leaves of a capture's time tree that belong to each part of the step log: only these can explain the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownPart:
    """A part of a step that grew: nanoseconds before and after, and its own growth, as `grown_parts` computes it."""

    part: Spent
    before_ns: int
    after_ns: int
    more_ns: int

    @property
    def message(self) -> Message:
        """The message on what grew, from how many ns to how many."""
        return say.grew(what=self.part.message, before=self.before_ns, after=self.after_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work of a step changed from `before` to `after`, in tokens, samples or batches."""

    unit: str
    before: float
    after: float

    @property
    def message(self) -> Message:
        """The message on the work of a step, before and after."""
        return say.work_changed(unit=say.unit(name=self.unit), before=self.before, after=self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSteps:
    """The change of a rank's steps since step `since`: the parts that grew most, and the work if it changed."""

    rank: int
    since: int
    before_ns: int
    after_ns: int
    grown: tuple[GrownPart, ...]
    work: Work | None
    single: bool = False
    """Whether the change is of single slow steps, which are compared with the other steps."""

    @property
    def part(self) -> Spent | None:
        """The part with at least half of the growth; None if no part has."""
        first = self.grown[0] if self.grown else None
        enough = first and first.more_ns >= _HALF * (self.after_ns - self.before_ns)
        return first.part if first and enough else None


def what_changed(before: Steps, after: Steps, alarm: Alarm) -> ChangedSteps | None:
    """The parts with at least a quarter of the growth, largest first; None where there are no steps to compare."""
    first, then = split(before), split(after)
    if first is None or then is None:
        return None
    walls = [float(steps.of("wall_ns").mean()) for steps in (before, after)]
    growth = walls[1] - walls[0]
    grown = [
        GrownPart(part=part, before_ns=int(max(first[part], 0)), after_ns=int(then[part]), more_ns=int(more))
        for part, more in sorted(grown_parts(first, then).items())
        if growth > 0 and more >= _PART * growth
    ]
    grown.sort(key=lambda one: -one.more_ns)
    return ChangedSteps(
        rank=after.rank, since=alarm.since, before_ns=int(walls[0]), after_ns=int(walls[1]), grown=tuple(grown[:2]),
        work=_work(before, after),
    )  # fmt: skip


def _work(before: Steps, after: Steps) -> Work | None:
    for unit in _UNITS:
        then, now = before.of(unit), after.of(unit)
        if np.isnan(then).mean() > _HALF or np.isnan(now).mean() > _HALF:
            continue
        was, is_now = float(np.nanmean(then)), float(np.nanmean(now))
        if was > 0 and abs(is_now / was - 1) >= _WORK:
            return Work(unit=unit, before=was, after=is_now)
    return None


def changed_by_turns(steps: Steps, usual_ns: int) -> ChangedSteps | None:
    """The change of a stretch's single slow steps against its other steps, by what is counted in each step."""
    slow = steps.of("wall_ns") > _SLOW * usual_ns
    parts = [_counted_each(steps, mask) for mask in (~slow, slow)]
    if not all(map(len, parts)):
        return None
    since = Alarm(rank=steps.rank, kind=AlarmKind.TURNS, step=0, since=int(steps.columns["step"][0]), before_ns=0,
                  after_ns=0, score=0.0)  # fmt: skip
    found = what_changed(parts[0], parts[1], since)
    return None if found is None else replace(found, single=True)


def _counted_each(steps: Steps, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Steps:
    columns = {name: column[mask].copy() for name, column in steps.columns.items()}
    for name in _NOT_EACH:
        columns[name][:] = NULL
    return Steps(rank=steps.rank, columns=columns, about=steps.about)


def sentence(changed: ChangedSteps, cause: Cause | None, leaf: Message | None = None) -> Message:
    """The message on a change; `leaf` is the part's largest leaf in a capture; a cause on another rank names that
    rank."""
    parts = [one.message for one in changed.grown]
    if cause is not None and cause.name is Spent.STRAGGLER:
        parts = [cause.name.message]
    culprit = cause.rank if cause is not None and cause.late else None
    told = say.changed_singly if changed.single else say.changed
    return told(
        since=changed.since, before=changed.before_ns, after=changed.after_ns, parts=parts or [say.NOTHING_TOLD],
        leaf=leaf, culprit=culprit, work=changed.work.message if changed.work else None,
    )  # fmt: skip
