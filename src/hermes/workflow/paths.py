"""The critical paths that a report shows, from the cached tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Protocol

import polars as pl

from hermes.align.offsets import ClockOffset
from hermes.analyze import breakdown
from hermes.analyze.arrivals import Arrival, Arrivals, by_starts
from hermes.analyze.measures import StepFree, StepPath, StepSplit
from hermes.analyze.step_path import RankRows, step_free, step_path
from hermes.workflow.load import Loaded

_KERNEL = ("kernel_id", "name", "type", "component", "stream", "start_ns", "dur_ns", "correlation", "launch_ns", "step")
_COMM_OP = (
    "comm_id",
    "name",
    "op",
    "group",
    "library",
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


class Seen(Protocol):
    """What one pass over the ranks has collected, as far as steps are followed and replayed."""

    splits: list[StepSplit]
    vendors: dict[int, str]
    comm_op: dict[int, pl.DataFrame]
    clocks: tuple[ClockOffset, ...]
    arrivals: dict[int, dict[int, Arrival]]
    rows: Callable[[int, int, int], RankRows]


def arrivals_of(
    comm_op: Mapping[int, pl.DataFrame], peers: Arrivals, clocks: Sequence[ClockOffset]
) -> dict[int, dict[int, Arrival]]:
    """Who held each collective up: the last of the ranks that were collected, or one that was not and came later."""
    found = by_starts(comm_op, {clock.rank: (clock.offset_ns, clock.error_ns or 0) for clock in clocks})
    for rank, own in peers.items():
        for comm_id, arrival in own.items():
            known = found[rank].get(comm_id)
            if known is None or known.at_ns < arrival.at_ns:
                found[rank][comm_id] = arrival
    return found


def paths_of(seen: Seen, most: int) -> tuple[tuple[StepPath, ...], tuple[StepFree, ...]]:
    """First the slowest rank's, followed to the ranks that it waited for; then each rank's own, where they are few.

    Of each rank the step of median window. Where a window begins with the first device task, the slowest rank's path
    to that task comes second. With the paths, why the device was free in that step: of the same ranks, and where they
    are many, of those whose device was free longest. Each holds its `most` longest stretches.
    """
    offsets = {clock.rank: clock.offset_ns for clock in seen.clocks}
    rows, arrivals = seen.rows, seen.arrivals
    typical = _typical(seen.splits)
    slowest = slowest_of(seen.splits)
    if slowest is None:
        return (), ()
    several = len(seen.vendors) > 1
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


def rows_of(loaded: Loaded, vendors: Mapping[int, str]) -> Callable[[int, int, int], RankRows]:
    """Loads the rows of a rank in a stretch of its time, each once: all that is asked of a step is of the same rows."""
    ranks = {rank.rank: rank for rank in loaded.ranks}

    @cache
    def rows(rank: int, first_ns: int, last_ns: int) -> RankRows:
        data = ranks[rank]
        return RankRows(
            rank=rank,
            vendor=vendors[rank],
            kernel=data.between("kernel", _KERNEL, first_ns, last_ns),
            comm_op=data.between("comm_op", _COMM_OP, first_ns, last_ns),
            host_op=data.between("host_op", _HOST_OP, first_ns, last_ns),
            flow=data.between("flow", _FLOW, first_ns, last_ns).filter(
                pl.col("kind").is_in(["queue", "launch", "event"])
            ),
            gc=data.between("gc", _GC, first_ns, last_ns),
        )

    return rows


def slowest_of(splits: Sequence[StepSplit]) -> StepSplit | None:
    """The typical step of the rank where it is longest; None when no step has a length."""
    typical = _typical(splits)
    return max(
        typical, key=lambda split: (split.compute_ns is not None, split.window_ns, -split.rank), default=None
    )  # fmt: skip


def _typical(splits: Sequence[StepSplit]) -> list[StepSplit]:
    """Of each rank the step of median window."""
    ranks = dict.fromkeys(split.rank for split in splits)
    found = []
    for rank in ranks:
        own = [split for split in splits if split.rank == rank]
        split = breakdown.median_split(own) or breakdown.middle_split(own)
        if split is not None and split.window_ns > 0:
            found.append(split)
    return found
