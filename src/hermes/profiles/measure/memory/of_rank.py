"""The memory of one rank: peaks, growth, holders, work that is done again or for nobody."""

from __future__ import annotations

import polars as pl

from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak, Recompute
from hermes.profiles.measure.host.of_rank import notable_of
from hermes.profiles.measure.memory import memory
from hermes.profiles.measure.memory.curves import curves_of
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import typical_of
from hermes.profiles.measure.steps.device import step_arrows, step_calls, step_kernels

_NODES = ("pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")
_SHAPED = ("name", "pid", "tid", "start_ns", "dur_ns", "shapes")


@per_rank(MemoryPeak)
def peaks_of(rank: RankTables) -> tuple[MemoryPeak, ...]:
    """The highest marks of each allocator."""
    return tuple(memory.peaks(rank.rank, rank.once(curves_of), rank.table("step")))


@per_rank(MemoryGrowth)
def growth_of(rank: RankTables) -> tuple[MemoryGrowth, ...]:
    """How memory grows from step to step."""
    return tuple(memory.growth(rank.rank, rank.once(curves_of), rank.table("step")))


@per_rank(Holder, needs={"host_op": _NODES})
def holders_of(rank: RankTables) -> tuple[Holder, ...]:
    """Who held memory at its peak."""
    allocation = rank.data.table("allocation", "name", "bytes", "alloc_ns", "release_ns", "device_id")
    if not allocation.height:
        return ()
    calls = rank.once(notable_of)
    frames = calls.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with("nn.Module: "))
    longest = rank.table("step")["dur_ns"].max()

    def nodes(first_ns: int, last_ns: int) -> pl.DataFrame:
        # The forward operator of a block's backward one ran in the same step.
        before = longest if isinstance(longest, int) else last_ns - first_ns
        end = pl.col("start_ns") + pl.col("dur_ns")
        there = (pl.col("start_ns") <= last_ns) & (end >= first_ns - before) & pl.col("sequence").is_not_null()
        return rank.table("host_op").lazy().filter(there).select(_NODES).collect()

    return tuple(memory.holders(rank.rank, allocation, frames, nodes))


@per_rank(Recompute, needs={"kernel": ("correlation",)})
def recompute_of(rank: RankTables) -> Recompute | None:
    """Forward work that the backward pass did again."""
    split = rank.once(typical_of)
    if split is None:
        return None
    return memory.recompute(split, rank.once(step_calls), rank.once(step_kernels), rank.once(step_arrows))
