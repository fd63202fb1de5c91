"""Computes the critical paths that a report shows, from the cached tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from hermes.model.path_measures import StepPath
from hermes.profiles.engines.engine import Engine, LostRank, results_in_rank_order
from hermes.profiles.load import Loaded, present
from hermes.profiles.measure.path.step_path import RankRows, host_reasons, step_path
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.store.rank_data import RankData

_KERNEL = (
    "kernel_id", "name", "type", "component", "device_id", "stream", "start_ns", "dur_ns", "correlation", "launch_ns",
    "step",
)  # fmt: skip
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
# With more ranks, the report shows only the path of the slowest rank.
_RANKS = 8


class StepLoader:
    """Loads the rows of a rank in a stretch of its time, each stretch once, so that all measures share them."""

    def __init__(self, loaded: Loaded, vendors: Mapping[int, str], engine: Engine | None = None) -> None:
        self._ranks = {rank.rank: rank for rank in loaded.ranks}
        self._vendors = vendors
        self._engine = engine
        self._known: dict[tuple[int, int, int], RankRows] = {}

    def __call__(self, rank: int, first_ns: int, last_ns: int) -> RankRows:
        """The rows of a rank that overlap `[first_ns, last_ns)`."""
        key = (rank, first_ns, last_ns)
        if key not in self._known:
            self._known[key] = self._read(self._stretch(*key))
        return self._known[key]

    def _read(self, stretch: RankStretch) -> RankRows:
        if self._engine is None or not self._engine.remote:
            return rows_in(stretch)
        return results_in_rank_order(self._engine.map(rows_in, {stretch.data.rank: stretch}))[0]

    def ahead(self, wanted: Mapping[int, tuple[int, int]]) -> None:
        """Load the stretches of several ranks at once, by the engine; lost stretches are read on demand."""
        missing = {rank: span for rank, span in wanted.items() if (rank, *span) not in self._known}
        if self._engine is None or not missing:
            return
        found = self._engine.map(prepared_rows, {rank: self._stretch(rank, *span) for rank, span in missing.items()})
        for rank, rows in found.items():
            if not isinstance(rows, LostRank):
                self._known[(rank, *missing[rank])] = rows

    def _stretch(self, rank: int, first_ns: int, last_ns: int) -> RankStretch:
        return RankStretch(data=self._ranks[rank], vendor=self._vendors[rank], first_ns=first_ns, last_ns=last_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStretch:
    """A stretch of time of one rank, in ns on its own clock."""

    data: RankData
    vendor: str
    first_ns: int
    last_ns: int


def rows_in(wanted: RankStretch) -> RankRows:
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


def prepared_rows(wanted: RankStretch) -> RankRows:
    """The rows of a rank in a stretch, with what a replay computes for each rank: its graph and its host's reasons."""
    rows = rows_in(wanted)
    for pid, tid in rows.graph.threads:
        host_reasons(rows, pid, tid)
    return rows


def paths_of(job: JobOutline, rows: StepLoader, most: int) -> tuple[StepPath, ...]:
    """The slowest rank's path, followed into the ranks that it waited for, and with few ranks each rank's own path.

    Paths are of each rank's step of median window. Each path holds its `most` longest stretches.
    """
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    arrivals = job.arrivals
    typical, slowest = job.steps.typical_of_each, job.steps.slowest
    if slowest is None:
        return ()
    several = len(job.collected) > 1
    found = [step_path(rows, slowest, arrivals, offsets, across=several, most=most)]
    few = typical if len(typical) <= _RANKS else [slowest]
    if several:
        found += [step_path(rows, split, arrivals, offsets, across=False, most=most) for split in few]
    return tuple(found)
