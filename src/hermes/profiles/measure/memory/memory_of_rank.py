"""Measures the memory of one rank: peaks, growth, holders and recomputation."""

from __future__ import annotations

import polars as pl

from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak, Recompute
from hermes.profiles.measure.host.host_of_rank import notable_of
from hermes.profiles.measure.memory import memory_peaks
from hermes.profiles.measure.memory.curves import curves_of
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import typical_of
from hermes.profiles.measure.steps.device_of_step import step_arrows, step_calls, step_kernels

_NODES = ("pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")


@per_rank(MemoryPeak, beside=("memory",))
def peaks_of(rank: RankTables) -> tuple[MemoryPeak, ...]:
    """The peak of each allocator of a rank."""
    return tuple(memory_peaks.peaks(rank.rank, rank.once(curves_of), rank.table("step")))


@per_rank(MemoryGrowth, beside=("memory",))
def growth_of(rank: RankTables) -> tuple[MemoryGrowth, ...]:
    """How the memory of a rank grows from step to step."""
    return tuple(memory_peaks.growth(rank.rank, rank.once(curves_of), rank.table("step")))


@per_rank(Holder, needs={"host_op": _NODES}, beside=("allocation",))
def holders_of(rank: RankTables) -> tuple[Holder, ...]:
    """The modules and operators that held memory at the rank's peak."""
    allocation = rank.data.table("allocation", "name", "bytes", "alloc_ns", "release_ns", "device_id")
    if not allocation.height:
        return ()
    calls = rank.once(notable_of)
    frames = calls.filter((pl.col("kind") == "python") & pl.col("name").str.starts_with("nn.Module: "))
    longest = rank.table("step")["dur_ns"].max()

    def nodes(first_ns: int, last_ns: int) -> pl.DataFrame:
        # The forward operator of a block's backward operator ran in the same step.
        before = longest if isinstance(longest, int) else last_ns - first_ns
        end = pl.col("start_ns") + pl.col("dur_ns")
        there = (pl.col("start_ns") <= last_ns) & (end >= first_ns - before) & pl.col("sequence").is_not_null()
        return rank.table("host_op").lazy().filter(there).select(_NODES).collect()

    return tuple(memory_peaks.holders(rank.rank, allocation, frames, nodes))


@per_rank(Recompute, needs={"kernel": ("correlation",)})
def recompute_of(rank: RankTables) -> Recompute | None:
    """Forward work that the backward pass of a rank computed again."""
    split = rank.once(typical_of)
    if split is None:
        return None
    return memory_peaks.recompute(split, rank.once(step_calls), rank.once(step_kernels), rank.once(step_arrows))
