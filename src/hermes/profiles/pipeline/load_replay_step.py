"""Loads a step for replay, with the step before it: the replayed step begins where the step before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hermes.base.errors import InputError
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.load import Loaded
from hermes.profiles.measure.path.fused_meetings import fused_meetings
from hermes.profiles.measure.path.rank_nodes import RankDone, RankPart
from hermes.profiles.measure.path.step_path import AFTER_NS, BEFORE_NS, RankRows
from hermes.profiles.pipeline.critical_paths import StepLoader
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.whatif import messages
from hermes.profiles.whatif.step_event_graph import JobStep, job_step

ALIKE = 0.1
"""The largest difference in length, as a share, at which a step that follows another stands for the typical step."""
_FURTHEST = 4
"""The number of steps by which a device may lag behind its host: rows further away are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """The step of one rank, and the step before it if that was captured too."""

    split: StepSplit
    before: StepSplit | None

    @property
    def begin_ns(self) -> int:
        """The begin of the first of the two steps, in ns."""
        return (self.before or self.split).start_ns

    @property
    def end_ns(self) -> int:
        return self.split.start_ns + self.split.window_ns

    @property
    def read(self) -> tuple[int, int]:
        """The range of time whose rows are read, in ns."""
        return self.begin_ns - BEFORE_NS, self.end_ns + max(AFTER_NS, _FURTHEST * (self.end_ns - self.begin_ns))

    @property
    def done(self) -> tuple[RankDone, ...]:
        """The end of each of the two steps."""
        of = [one for one in (self.before, self.split) if one is not None]
        return tuple(RankDone(step=one.step, end_ns=one.start_ns + one.window_ns) for one in of)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The parts of a step: the graph parts and rows of its ranks, and the fused kernels in which ranks meet."""

    parts: tuple[RankPart, ...]
    rows: Mapping[int, RankRows]
    fused: Sequence[Mapping[int, int]]


def step_of(loaded: Loaded, job: JobOutline, load: StepLoader | None = None) -> JobStep:
    """The slowest rank's step of median window, on all ranks; raises `InputError` if no step can be replayed."""
    return joined_step(job, parts_of(loaded, job, load))


def joined_step(job: JobOutline, made: StepParts) -> JobStep:
    """Join the parts of all ranks into one step."""
    return job_step(made.parts, made.rows, job.meetings(), made.fused)


def parts_of(loaded: Loaded, job: JobOutline, load: StepLoader | None = None) -> StepParts:
    """The parts of the slowest rank's typical step, with the step before it if every rank captured both."""
    slowest = job.steps.slowest
    load = load or StepLoader(loaded, job.vendors)
    if slowest is None or slowest.compute_ns is None:
        raise InputError(
            messages.NO_DEVICE_STEP,
            where=", ".join(map(str, loaded.paths)),
            hint=messages.DO_DEVICE_ACTIVITIES,
        )
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    parts: list[RankPart] = []
    rows: dict[int, RankRows] = {}
    stretches = _stretches(job.steps, slowest)
    load.ahead({one.split.rank: one.read for one in stretches})
    for one in stretches:
        rank = one.split.rank
        rows[rank] = load(rank, *one.read)
        parts.append(
            RankPart(
                rank=rank,
                graph=rows[rank].graph,
                arrivals=job.arrivals.get(rank, {}),
                start_ns=one.begin_ns,
                end_ns=one.end_ns,
                offset_ns=offsets.get(rank, 0),
                done=one.done,
            )
        )
    fused = fused_meetings({rank: own.kernel for rank, own in rows.items()}, job.members, offsets)
    met: dict[int, set[int]] = {}
    for rank, kernel in (pair for meeting in fused for pair in meeting.items()):
        met.setdefault(rank, set()).add(kernel)
    parts = [replace(part, fused=frozenset(met.get(part.rank, ()))) for part in parts]
    return StepParts(parts=tuple(parts), rows=rows, fused=fused)


def _stretches(steps: JobSteps, slowest: StepSplit) -> list[_Stretch]:
    """The typical step of each rank, or a step of similar length that every rank has a step before."""
    own: dict[int, dict[int | None, StepSplit]] = {}
    for split in steps.every:
        own.setdefault(split.rank, {}).setdefault(split.step, split)
    chosen, before = _with_one_before(own[slowest.rank], slowest)
    ranks = [rank for rank in own if chosen.step in own[rank]]
    if before is None or not all(before.step in own[rank] for rank in ranks):
        return [
            _Stretch(split=of_rank[slowest.step], before=None) for of_rank in own.values() if slowest.step in of_rank
        ]
    return [_Stretch(split=own[rank][chosen.step], before=own[rank][before.step]) for rank in ranks]


def _with_one_before(own: dict[int | None, StepSplit], typical: StepSplit) -> tuple[StepSplit, StepSplit | None]:
    """The step with a step before it that is nearest in length to the typical step, and the step before.

    Without such a pair, the typical step alone.
    """
    marked: Sequence[StepSplit] = sorted(
        (split for split in own.values() if split.step is not None), key=lambda split: split.start_ns
    )
    pairs = [
        (after, before)
        for before, after in pairwise(marked)
        if abs(after.window_ns - typical.window_ns) <= ALIKE * typical.window_ns
        and (after.step or 0) > (before.step or 0)
    ]
    return min(pairs, key=lambda pair: abs(pair[0].window_ns - typical.window_ns), default=(typical, None))
