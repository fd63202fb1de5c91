"""Counts a rank's compute kernels by duration: short kernels cost their launch, and long ones are worth tuning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank

_US = 1_000
BOUNDS_NS = tuple(_US * digit * 10**power for power in range(5) for digit in (1, 2, 5))
"""Bounds between groups of kernel durations in ns: 1, 2, 5, 10 us and so on, up to 50 ms."""


@measure("compute.durations", title="Kernels by duration", zh="按时长划分的核函数", most=500)
@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDurations:
    """A rank's compute kernels that take at least `least_ns` and less than `below_ns`, over the whole capture."""

    rank: int = field("global rank", "Rank", "卡")
    least_ns: int = field("they take at least this", "From", "从")
    below_ns: int | None = field("they take less than this; null: they may take any time", "To", "到")
    kernels: int = field("how many they are", "Kernels", "核函数数")
    ns: int = field("their time", "Total", "合计", key="total_ms")
    share: float = field("of the time of the rank's compute kernels", "Share", "占比")


@per_rank(KernelDurations, needs={"kernel": ("component", "dur_ns")})
def durations_of(rank: RankTables) -> Iterator[KernelDurations]:
    """One row for each group of durations with a kernel, the shortest group first."""
    kernel = rank.table("kernel")
    yield from durations(rank.rank, kernel.filter(pl.col("component") == "compute")["dur_ns"])


def durations(rank: int, taken: pl.Series) -> Iterator[KernelDurations]:
    """The groups of kernel durations, given in nanoseconds; empty without a kernel."""
    ns = taken.to_numpy()
    groups = np.searchsorted(BOUNDS_NS, ns, side="right")
    whole = int(ns.sum())
    for group in np.unique(groups):
        own = ns[groups == group]
        yield KernelDurations(
            rank=rank, least_ns=(0, *BOUNDS_NS)[group], below_ns=(*BOUNDS_NS, None)[group], kernels=len(own),
            ns=int(own.sum()), share=int(own.sum()) / whole if whole else 0.0,
        )  # fmt: skip
