"""From loaded tables to a step that can be replayed, with the step before it: so its begin is a point like its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hermes.base.errors import InputError
from hermes.model.measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.load import Loaded
from hermes.profiles.measure.communication.arrivals import meetings
from hermes.profiles.measure.path.fused_meetings import fused_meetings
from hermes.profiles.measure.path.rank_nodes import Done, Part
from hermes.profiles.measure.path.step_path import AFTER_NS, BEFORE_NS, RankRows
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.paths import StepLoader
from hermes.profiles.whatif.job import JobStep, job_step

ALIKE = 0.1
"""A step with one before it stands for the typical one where their lengths differ by less than this."""
_FURTHEST = 4
"""The device may be behind its host by so many steps: further rows are not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """The step of one rank, and the one before it, where that was captured too."""

    split: StepSplit
    before: StepSplit | None

    @property
    def begin_ns(self) -> int:
        """Where the host begins with the first of them."""
        first = self.before or self.split
        return first.start_ns - _ahead(first)

    @property
    def end_ns(self) -> int:
        return self.split.start_ns + self.split.window_ns

    @property
    def read(self) -> tuple[int, int]:
        """From when to when rows are read."""
        return self.begin_ns - BEFORE_NS, self.end_ns + max(AFTER_NS, _FURTHEST * (self.end_ns - self.begin_ns))

    @property
    def done(self) -> tuple[Done, ...]:
        """Where each of them is done."""
        of = [one for one in (self.before, self.split) if one is not None]
        return tuple(Done(step=one.step, host_ns=_host_end(one)) for one in of)


def step_of(loaded: Loaded, job: JobOutline, load: StepLoader | None = None) -> JobStep:
    """The slowest rank's step of median window, on all ranks; raises `InputError` when no step can be replayed."""
    slowest = job.steps.slowest
    load = load or StepLoader(loaded, job.vendors)
    if slowest is None or slowest.compute_ns is None:
        raise InputError(
            "there is no step with device tasks to replay",
            where=", ".join(map(str, loaded.paths)),
            hint="profile with the activities of the device",
        )
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    parts: list[Part] = []
    rows: dict[int, RankRows] = {}
    stretches = _stretches(job.steps, slowest)
    load.ahead({one.split.rank: one.read for one in stretches})
    for one in stretches:
        rank = one.split.rank
        rows[rank] = load(rank, *one.read)
        parts.append(
            Part(
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
    return job_step(parts, rows, meetings(job.every), fused)


def _stretches(steps: JobSteps, slowest: StepSplit) -> list[_Stretch]:
    """The typical step of each rank, or one as long that has a step before it on every rank."""
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
    """The step nearest to the typical one that follows another, and that other; the typical one alone without any."""
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


def _ahead(split: StepSplit) -> int:
    """From the host's mark to the window: a window of the device begins only with its first task."""
    return max(split.preparing_ns or 0, 0) if split.window_kind == "device" else 0


def _host_end(split: StepSplit) -> int | None:
    """Where the host's mark ends; a window of the device says nothing of it."""
    return split.start_ns + split.window_ns if split.window_kind in ("host", "found") else None
