"""Measures failed requests for device memory: their size, the memory in use, and free but fragmented memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.model.declare import field, measure
from hermes.model.tables.failed_requests import ASKED, LEFT, OUT_OF_MEMORY
from hermes.profiles.measure.registry import RankTables, per_rank

_HOLDERS = 3
_MOST = 20
_SAMPLE = ("source", "name", "series", "ts_ns", "value", "device_id")


@measure("memory.failed", title="Requests that failed", zh="内存不足的请求")
@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRequest:
    """One memory request that the device could not meet.

    `idle_bytes` is memory that the allocator had reserved and nobody used. If it exceeds the request, the memory was
    fragmented.
    """

    rank: int = field("global rank", "Rank", "卡")
    device_id: int | None = field("device", "Device", "设备")
    at_ns: int = field("when", "At", "时刻", kind="moment")
    asked_bytes: int = field("what was asked for", "Asked for", "请求")
    left_bytes: int = field("what the device had left", "Left on the device", "设备剩余")
    allocated_bytes: int | None = field("handed out at that moment", "Allocated", "已分配")
    idle_bytes: int | None = field("taken from the device and not handed out", "Idle in the allocator", "分配器空闲")
    place: str = field("the line that asked, and its callers", "Asked by", "请求位置", kind="name")
    holders: str = field("who held most, with how much", "Held by", "主要占用", kind="name")


@per_rank(FailedRequest, beside=("counter",))
def failed_of(rank: RankTables) -> tuple[FailedRequest, ...]:
    """The failed memory requests of a rank, in order; empty for most ranks."""
    # Samples may be most of a capture, and hardly ever hold a failed request: the whole table is not loaded.
    rows = rank.data.where("counter", _SAMPLE, pl.col("source") == OUT_OF_MEMORY)
    if not rows.height:
        return ()
    allocation = rank.data.table("allocation", "name", "bytes", "alloc_ns", "release_ns", "device_id")
    return tuple(failed(rank.rank, rows, rank.table("memory"), allocation))


def failed(rank: int, rows: pl.DataFrame, memory: pl.DataFrame, allocation: pl.DataFrame) -> Iterator[FailedRequest]:
    """One row for each failed request; `rows` are the rows of the table `counter` about failures."""
    asked, left = (rows.filter(pl.col("series") == series) for series in (ASKED, LEFT))
    both = asked.join(left, on=["ts_ns", "device_id", "name"], suffix="_left", how="left", maintain_order="left")
    for row in both.sort("ts_ns").head(_MOST).iter_rows(named=True):
        at, device = row["ts_ns"], row["device_id"]
        before = memory.filter((pl.col("ts_ns") <= at) & pl.col("device_id").eq_missing(device)).sort("ts_ns").tail(1)
        allocated = before["allocated_bytes"][0] if before.height else None
        reserved = before["reserved_bytes"][0] if before.height else None
        idle = None if allocated is None or reserved is None else max(0, reserved - allocated)
        yield FailedRequest(
            rank=rank, device_id=device, at_ns=at, asked_bytes=int(row["value"]),
            left_bytes=int(row["value_left"] or 0), allocated_bytes=allocated, idle_bytes=idle, place=row["name"],
            holders=_holders(allocation, at, device),
        )  # fmt: skip


def _holders(allocation: pl.DataFrame, at: int, device: int | None) -> str:
    own = allocation.filter(
        (pl.col("alloc_ns") <= at)
        & (pl.col("release_ns").is_null() | (pl.col("release_ns") > at))
        & pl.col("device_id").eq_missing(device)
    )
    summed = own.group_by("name").agg(pl.col("bytes").sum()).sort("bytes", "name", descending=[True, False])
    return "; ".join(f"{name}: {size / 1e9:.2f} GB" for name, size in summed.head(_HOLDERS).iter_rows())
