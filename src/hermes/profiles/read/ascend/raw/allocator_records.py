"""Reads torch_npu's allocator records: the device memory over time, and the blocks with their allocating calls."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl

from hermes.profiles.read.ascend.raw.decode_records import Records
from hermes.profiles.read.ascend.raw.record_clock import Clock
from hermes.profiles.read.table_sink import Sink

_NPU, _INNER = 20, 0
_TAKEN, _GIVEN_BACK = 0, 1
_FIELDS = (
    "pointer", "time", "bytes", "allocated", "reserved", "active", "stream", "device_type", "device_id", "component",
    "what", "allocator", "tid", "pid",
)  # fmt: skip
_MOST_OPEN = 4096


def write_memory(found: Records, clock: Clock, calls: pl.DataFrame, sink: Sink) -> None:
    """Write `memory` and `allocation`; `calls` are the rows of `host_op`, whose operators name the blocks."""
    if not found.fixed:
        return
    columns = {name: np.array(column) for name, column in zip(_FIELDS, zip(*found.fixed, strict=True), strict=True)}
    times = clock.at(columns["time"].astype(np.int64))
    rows = pl.DataFrame({name: column.astype(np.int64) for name, column in columns.items()}).with_columns(
        pl.Series("ts_ns", times)
    )
    rows = rows.filter((pl.col("device_type") == _NPU) & (pl.col("allocator") == _INNER)).sort(
        "ts_ns", maintain_order=True
    )
    sink.frame(
        "memory",
        rows.select(
            pl.lit("PTA").alias("component"),
            "ts_ns",
            pl.col("allocated").alias("allocated_bytes"),
            pl.col("reserved").alias("reserved_bytes"),
            pl.col("active").alias("active_bytes"),
            "device_id",
        ),
    )
    sink.frame("allocation", _blocks(rows, _callers(rows, calls)))


def _blocks(rows: pl.DataFrame, callers: list[str]) -> pl.DataFrame:
    """Each allocated block, with the moment its address was released."""
    held: dict[int, int] = {}
    blocks: list[list[object]] = []
    picked = rows.select("pointer", "what", "bytes", "ts_ns", "device_id").iter_rows()
    for (pointer, what, size, moment, device), name in zip(picked, callers, strict=True):
        if what == _TAKEN:
            held[pointer] = len(blocks)
            blocks.append([name, abs(size), moment, None, device])
        elif what == _GIVEN_BACK and pointer in held:
            blocks[held.pop(pointer)][3] = moment
    return pl.DataFrame(
        blocks,
        schema={
            "name": pl.String(),
            "bytes": pl.Int64(),
            "alloc_ns": pl.Int64(),
            "release_ns": pl.Int64(),
            "device_id": pl.Int64(),
        },
        orient="row",
    )


def _callers(rows: pl.DataFrame, calls: pl.DataFrame) -> list[str]:
    """For each record the innermost operator, or task of the queue, that ran on its thread at that moment."""
    by_thread: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    named = calls.filter(pl.col("kind").is_in(["op", "dequeue"])).sort("start_ns")
    for tid, start, duration, name in named.select("tid", "start_ns", "dur_ns", "name").iter_rows():
        by_thread[tid].append((start, start + duration, name))
    found = ["unknown"] * rows.height
    wanted: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, (tid, moment) in enumerate(rows.select("tid", "ts_ns").iter_rows()):
        wanted[tid].append((moment, place))
    for tid, moments in wanted.items():
        for (_, place), name in zip(moments, _inside(by_thread.get(tid, []), moments), strict=True):
            found[place] = name
    return found


def _inside(spans: list[tuple[int, int, str]], moments: list[tuple[int, int]]) -> list[str]:
    """Names of the innermost spans at these moments; both lists are sorted."""
    names: list[str] = []
    open_spans: list[tuple[int, str]] = []
    place = 0
    for moment, _ in moments:
        while place < len(spans) and spans[place][0] <= moment:
            start, end, name = spans[place]
            open_spans = [span for span in open_spans if span[0] > start][-_MOST_OPEN:]
            open_spans.append((end, name))
            place += 1
        inner = next((name for end, name in reversed(open_spans) if end > moment), "unknown")
        names.append(inner.removeprefix("Dequeue@"))
    return names
