"""Measures the memory headroom of a device in each step: its capacity less the highest use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.units import whole_number
from hermes.knowledge.device_memory import SAME_CORES, memory_bytes
from hermes.model.declare import field, measure
from hermes.model.tables.device_settings import DEVICE_MEMORY
from hermes.profiles.measure.compute.compute_of_rank import compute_of
from hermes.profiles.measure.compute.operator_signatures import own_chip
from hermes.profiles.measure.memory.curves import curves_of
from hermes.profiles.measure.registry import RankTables, per_rank

_MOST = 500
_HOST = "cpu"


@measure(
    "memory.headroom",
    title="Memory left on the device",
    zh="显存余量",
    about=(
        "The capacity is what the capture records, else that of the chip of this name. What other processes hold is in "
        "no capture: the device may have less left."
    ),
    most=_MOST,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The memory headroom of one step of one rank at its peak use, or of the whole capture without step marks."""

    rank: int = field("global rank", "Rank", "卡")
    device_id: int | None = field("device", "Device", "设备")
    step: int | None = field("step; null for a whole capture", "Step", "步")
    capacity_bytes: int = field("memory of the device", "Capacity", "容量")
    told: Literal["capture", "chip"] = field("what tells the capacity", "Known by", "来源")
    held_bytes: int = field("taken from the device by the process, at most", "Taken", "已占用")
    free_bytes: int = field("the rest", "Left", "剩余")
    share: float = field("of the capacity that is left", "Left, of all", "剩余占比")


@per_rank(Headroom, beside=("memory", "counter", "pmu"))
def headroom_of(rank: RankTables) -> tuple[Headroom, ...]:
    """The headroom of a rank by step; empty without a memory curve or a known capacity."""
    memory = rank.once(curves_of)
    if not memory.height:
        return ()
    setting = rank.table("setting")
    recorded = setting.filter(pl.col("name") == DEVICE_MEMORY)["value"].drop_nulls().to_list()
    if recorded and (bytes_there := whole_number(recorded[0])) is not None:
        return tuple(headroom(rank.rank, memory, rank.table("step"), bytes_there, "capture"))
    capacity = memory_bytes(rank.about["chip"]) or _by_counters(rank)
    return tuple(headroom(rank.rank, memory, rank.table("step"), capacity, "chip")) if capacity else ()


def _by_counters(rank: RankTables) -> int | None:
    """The memory in bytes of the chip that counters tell, if the capture names no chip."""
    compute = rank.once(compute_of)
    chip = own_chip(compute) if compute is not None and compute.chip is None else None
    return memory_bytes(chip.name) if chip is not None and chip.name not in SAME_CORES else None


def headroom(
    rank: int, memory: pl.DataFrame, step: pl.DataFrame, capacity: int, told: Literal["capture", "chip"]
) -> Iterator[Headroom]:
    """One row per step, in order; empty if the use exceeds the capacity, since one of the two is wrong.

    Of several components the one with most memory counts: `APP` is the whole process, and includes the allocators.
    """
    taken = memory.filter((pl.col("component") != _HOST) & (pl.col("reserved_bytes") > 0)).sort("ts_ns")
    if not taken.height or taken["device_id"].n_unique() > 1 or taken["reserved_bytes"].max() > capacity:  # type: ignore[operator]
        return
    curves = [
        (rows["ts_ns"].to_numpy(), rows["reserved_bytes"].to_numpy())
        for rows in taken.partition_by("component", maintain_order=True)
    ]
    device = taken["device_id"][0]
    steps = step.sort("start_ns").select("step", "start_ns", "dur_ns").rows()
    first, last = int(taken["ts_ns"][0]), int(taken["ts_ns"][-1])
    for number, start, length in steps or [(None, first, last - first + 1)]:
        held = max(_most(when, size, start, start + length) for when, size in curves)
        if held:
            yield Headroom(
                rank=rank, device_id=device, step=number, capacity_bytes=capacity, told=told, held_bytes=held,
                free_bytes=capacity - held, share=1 - held / capacity,
            )  # fmt: skip


def _most(
    when: np.ndarray[tuple[int], np.dtype[np.int64]], size: np.ndarray[tuple[int], np.dtype[np.int64]],
    start: int, end: int,
) -> int:  # fmt: skip
    """The most bytes in a stretch of time: held at its begin, or a sample within it; 0 if nothing was known yet."""
    before = max(int(np.searchsorted(when, start, side="right")) - 1, 0)
    after = int(np.searchsorted(when, end, side="left"))
    return int(size[before:after].max()) if after > before else 0
