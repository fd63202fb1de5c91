"""Finds calls that are long because they are a program's first: they load code, or set up a context or library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, union_of_intervals
from hermes.knowledge.blocking_calls import FIRST_ALLOCATION_NS, FIRST_LAUNCH_NS, allocates, starts_up
from hermes.model.host_measures import FirstCalls
from hermes.model.step_measures import StepSplit
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.host.select_host_calls import spans
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device_of_step import busy_of

_NAMES = 3
_CALL = ("kind", "name", "pid", "tid", "start_ns", "dur_ns")
_FREE = 0.9
"""The share of a first call in which the device must be free: a launch held by a full queue overlaps device work."""


@per_rank(FirstCalls, needs={"host_op": _CALL})
def first_calls_of(rank: RankTables) -> tuple[FirstCalls, ...]:
    """The time that first calls of the program took in the capture: one row for launches, one for allocations."""
    busy, splits = rank.once(busy_of), splits_of(rank)
    if busy is None or not splits:
        return ()
    calls = rank.table("host_op").select(_CALL).filter(pl.col("kind").is_in(RUNTIME_KINDS))
    return first_calls(rank.rank, calls, busy, splits)


def first_calls(rank: int, calls: pl.DataFrame, busy: Intervals, splits: Sequence[StepSplit]) -> tuple[FirstCalls, ...]:
    """A row for launches and one for allocations if long calls with a free device occur in few of the steps."""
    names = calls["name"].unique()
    chosen = {name: allocates(name) for name in names if starts_up(name)}
    long = calls.filter(pl.col("name").is_in(list(chosen)) & (pl.col("dur_ns") >= FIRST_LAUNCH_NS))
    if not long.height:
        return ()
    long = long.with_columns(pl.col("name").replace_strict(chosen, return_dtype=pl.Boolean).alias("allocates"))
    long = long.filter(~pl.col("allocates") | (pl.col("dur_ns") >= FIRST_ALLOCATION_NS))
    free = np.array([_free(row, busy) for row in long.select("start_ns", "dur_ns").iter_rows()], dtype=np.int64)
    long = long.with_columns(pl.Series("free_ns", free))
    long = long.filter(pl.col("free_ns") >= _FREE * pl.col("dur_ns")).sort("dur_ns", descending=True)
    begins = np.array([split.start_ns for split in splits], dtype=np.int64)
    lengths = np.array([split.window_ns for split in splits], dtype=np.int64)
    within = union_of_intervals(begins, begins + lengths)
    found = []
    for allocation in (False, True):
        own = long.filter(pl.col("allocates") == allocation)
        if own.height and _rare(own, splits) and ((spans(own) & within) - busy).total:
            found.append(_row(rank, own, (spans(own) & within) - busy, allocation=allocation, steps=len(splits)))
    return tuple(found)


def _free(call: tuple[int, int], busy: Intervals) -> int:
    start, length = call
    return length - busy.clip(start, start + length).total


def _rare(own: pl.DataFrame, splits: Sequence[StepSplit]) -> bool:
    """Whether the calls occur in at most half of the steps: a call in each step is no first call."""
    if len(splits) < 2:
        return True
    starts = own["start_ns"].to_numpy()
    hit = sum(bool(((starts >= one.start_ns) & (starts < one.start_ns + one.window_ns)).any()) for one in splits)
    return hit <= len(splits) // 2


def _row(rank: int, own: pl.DataFrame, free: Intervals, *, allocation: bool, steps: int) -> FirstCalls:
    longest = own.row(0, named=True)
    names = own.group_by("name").agg(pl.len().alias("calls"), pl.col("dur_ns").sum()).sort("dur_ns", descending=True)
    return FirstCalls(
        rank=rank,
        allocation=allocation,
        steps=steps,
        calls=own.height,
        ns=spans(own).total,
        free_ns=free.total,
        longest_ns=longest["dur_ns"],
        longest_at_ns=longest["start_ns"],
        names=tuple(names.head(_NAMES).iter_rows()),
    )
