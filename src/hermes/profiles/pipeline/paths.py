"""The critical paths that a report shows, from the cached tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepFree, StepPath
from hermes.profiles.engines.engine import Engine, Lost
from hermes.profiles.load import Loaded, present
from hermes.profiles.measure.path.step_path import RankRows, host_reasons, step_free, step_path
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.store.rank_data import RankData

_KERNEL = ("kernel_id", "name", "type", "component", "stream", "start_ns", "dur_ns", "correlation", "launch_ns", "step")
_COMM_OP = (
    "comm_id",
    "name",
    "op",
    "group",
    "library",
    "bytes",
    "stream",
    "start_ns",
    "dur_ns",
    "correlation",
    "launch_ns",
    "step",
)
_HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "self_ns", "correlation")
_FLOW = ("kind", "src_pid", "src_tid", "src_ns", "dst_pid", "dst_tid", "dst_ns")
_GC = ("start_ns", "dur_ns")
# Beyond so many ranks the report shows the path of the slowest alone.
_RANKS = 8


class StepLoader:
    """Loads the rows of a rank in a stretch of its time, each once: all that is asked of a step is of the same rows."""

    def __init__(self, loaded: Loaded, vendors: Mapping[int, str], engine: Engine | None = None) -> None:
        self._ranks = {rank.rank: rank for rank in loaded.ranks}
        self._vendors = vendors
        self._engine = engine
        self._known: dict[tuple[int, int, int], RankRows] = {}

    def __call__(self, rank: int, first_ns: int, last_ns: int) -> RankRows:
        """The rows that overlap `[first_ns, last_ns)`."""
        key = (rank, first_ns, last_ns)
        if key not in self._known:
            self._known[key] = rows_in(self._stretch(*key))
        return self._known[key]

    def ahead(self, wanted: Mapping[int, tuple[int, int]]) -> None:
        """Load stretches by rank at once, by the engine where the tables are; what it loses is read when asked for."""
        missing = {rank: span for rank, span in wanted.items() if (rank, *span) not in self._known}
        if self._engine is None or not missing:
            return
        found = self._engine.map(prepared_rows, {rank: self._stretch(rank, *span) for rank, span in missing.items()})
        for rank, rows in found.items():
            if not isinstance(rows, Lost):
                self._known[(rank, *missing[rank])] = rows

    def _stretch(self, rank: int, first_ns: int, last_ns: int) -> Stretch:
        return Stretch(data=self._ranks[rank], vendor=self._vendors[rank], first_ns=first_ns, last_ns=last_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of time of one rank."""

    data: RankData
    vendor: str
    first_ns: int
    last_ns: int


def rows_in(wanted: Stretch) -> RankRows:
    """The rows of a rank in a stretch of its time."""
    data, first_ns, last_ns = present(wanted.data), wanted.first_ns, wanted.last_ns
    flow = data.between("flow", _FLOW, first_ns, last_ns)
    return RankRows(
        rank=data.rank,
        vendor=wanted.vendor,
        kernel=data.between("kernel", _KERNEL, first_ns, last_ns),
        comm_op=data.between("comm_op", _COMM_OP, first_ns, last_ns),
        host_op=data.between("host_op", _HOST_OP, first_ns, last_ns),
        flow=flow.filter(pl.col("kind").is_in(["queue", "launch", "event"])),
        gc=data.between("gc", _GC, first_ns, last_ns),
    )


def prepared_rows(wanted: Stretch) -> RankRows:
    """The rows of a rank in a stretch, with what a replay works out of each rank: its graph, and its host's reasons."""
    rows = rows_in(wanted)
    for pid, tid in rows.graph.threads:
        host_reasons(rows, pid, tid)
    return rows


def paths_of(job: JobOutline, rows: StepLoader, most: int) -> tuple[tuple[StepPath, ...], tuple[StepFree, ...]]:
    """First the slowest rank's, followed to the ranks that it waited for; then each rank's own, where they are few.

    Of each rank the step of median window. Where a window begins with the first device task, the slowest rank's path
    to that task comes second. With the paths, why the device was free in that step: of the same ranks, and where they
    are many, of those whose device was free longest. Each holds its `most` longest stretches.
    """
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    arrivals = job.arrivals
    typical, slowest = job.steps.typical_of_each, job.steps.slowest
    if slowest is None:
        return (), ()
    several = len(job.collected) > 1
    found = [step_path(rows, slowest, arrivals, offsets, across=several, most=most)]
    if slowest.window_kind == "device" and (slowest.preparing_ns or 0) > 0:
        found.append(step_path(rows, slowest, arrivals, offsets, across=several, stretch="preparing", most=most))
    few = typical if len(typical) <= _RANKS else [slowest]
    if several:
        found += [step_path(rows, split, arrivals, offsets, across=False, most=most) for split in few]
    measured = [split for split in _most_free(typical, slowest) if split.compute_ns is not None]
    free = [step_free(rows, split, arrivals.get(split.rank, {}), most=most) for split in measured]
    return tuple(found), tuple(free)


def _most_free(typical: Sequence[StepSplit], slowest: StepSplit) -> list[StepSplit]:
    """The slowest rank and those whose device is free longest, in the order given; all where they are few.

    The rank that keeps all others waiting is not the slowest one: its host shows in its own free time.
    """
    longest = sorted(typical, key=lambda split: (-(split.free_ns or 0), split.rank))[: _RANKS - 1]
    chosen = {slowest.rank, *(split.rank for split in longest)}
    return [split for split in typical if len(typical) <= _RANKS or split.rank in chosen]
