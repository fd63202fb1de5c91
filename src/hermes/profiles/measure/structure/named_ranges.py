"""Measures named ranges of the program by step and domain: count, host time, and device time of their launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.structure.modules import asked_of, nodes_of, places

_Counts = np.ndarray[tuple[int], np.dtype[np.int64]]
_MOST = 1_000
RANGES = ("name", "domain", "pid", "tid", "start_ns", "dur_ns", "step")


@measure(
    "compute.ranges",
    title="Named ranges by step and domain",
    zh="按步与域的标注区间",
    about=(
        "What was launched in a range, and the backward work of what it computed, its inner ranges included. A range "
        "inside one of the same name counts once. The 1,000 with most device time."
    ),
    most=_MOST,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOfStep:
    """All ranges of one name and domain in one step of one rank; marks without a length are calls of no time."""

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("step in which they began; null outside of all", "Step", "步")
    domain: str | None = field("domain of mstx; null for the default one", "Domain", "域")
    name: str = field("as the program named it", "Range", "区间")
    calls: int = field("calls", "Calls", "次数")
    host_ns: int = field("time on the host", "On the host", "主机时间")
    device_ns: int = field("time of its kernels and copies, added up", "On the device", "设备时间")
    kernels: int = field("kernels and copies", "Kernels", "核函数数")


@per_rank(RangeOfStep)
def ranges_of(rank: RankTables) -> tuple[RangeOfStep, ...]:
    """The named ranges of a rank; empty if the program names none."""
    named = rank.data.where("host_op", RANGES, pl.col("kind") == "mark")
    if not named.height:
        return ()
    return tuple(ranges(rank.rank, named, rank.once(asked_of), rank.once(nodes_of)))


def ranges(rank: int, named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[RangeOfStep]:
    """The named ranges by device time.

    `named` holds the ranges; `asked` and `nodes` are as in `modules.module_times`. O(n log n).
    """
    named, device, kernels, above = inclusive(named, asked, nodes)
    keys = named.select("domain", "name").rows()
    outermost = [not _within_own_kind(at, above, keys) for at in range(named.height)]
    summed = (
        named.with_columns(
            pl.Series("device_ns", device * outermost), pl.Series("kernels", kernels * outermost),
            pl.Series("host_ns", named["dur_ns"].to_numpy() * outermost),
        )
        .group_by("step", "domain", "name", maintain_order=True)
        .agg(pl.len().alias("calls"), pl.col("host_ns", "device_ns", "kernels").sum())
        .sort("device_ns", "host_ns", descending=True, maintain_order=True)
    )  # fmt: skip
    for row in summed.head(_MOST).iter_rows(named=True):
        yield RangeOfStep(rank=rank, **row)


def inclusive(
    named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame
) -> tuple[pl.DataFrame, _Counts, _Counts, list[int]]:
    """The ranges in the order of their threads, with device time and number of kernels, inner ranges included.

    The last value is the index of the range around each range, -1 without one.
    """
    named = named.sort("pid", "tid", "start_ns", "dur_ns", descending=[False, False, False, True])
    place, _ = places(named, asked, nodes)
    inside = place >= 0
    summed = np.bincount(place[inside], weights=asked["dur_ns"].to_numpy()[inside], minlength=named.height)
    device, kernels = summed.astype(np.int64), np.bincount(place[inside], minlength=named.height).astype(np.int64)
    above = _holders(named)
    # An enclosing range stands before the ranges inside it.
    for at in range(named.height - 1, -1, -1):
        if above[at] >= 0:
            device[above[at]] += device[at]
            kernels[above[at]] += kernels[at]
    return named, device, kernels, above


def _holders(named: pl.DataFrame) -> list[int]:
    """For each range of the sorted frame, the index of the range around it on its thread, -1 without one."""
    found: list[int] = []
    lane: tuple[object, object] | None = None
    open_ranges: list[tuple[int, int]] = []
    for at, (pid, tid, start, length) in enumerate(named.select("pid", "tid", "start_ns", "dur_ns").iter_rows()):
        if lane != (pid, tid):
            lane, open_ranges = (pid, tid), []
        while open_ranges and open_ranges[-1][0] < start + length:
            open_ranges.pop()
        found.append(open_ranges[-1][1] if open_ranges else -1)
        open_ranges.append((start + length, at))
    return found


def _within_own_kind(at: int, above: list[int], keys: list[tuple[object, ...]]) -> bool:
    holder = above[at]
    while holder >= 0:
        if keys[holder] == keys[at]:
            return True
        holder = above[holder]
    return False
