"""Reads a capture that no tool has exported yet, from the framework's records: steps, host calls, launches, memory.

The device's own records (`PROF_*/device_N/data`) have no public layout: a note says what CANN's tools must make of
them.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import numpy as np
import polars as pl

from hermes.profiles.read import messages
from hermes.profiles.read.ascend.capture_folders import Capture, rank_number
from hermes.profiles.read.ascend.profiler_info import json_beside, read_info
from hermes.profiles.read.ascend.raw import decode_records, mindspore
from hermes.profiles.read.ascend.raw.allocator_records import write_memory
from hermes.profiles.read.ascend.raw.python_calls import python_calls
from hermes.profiles.read.ascend.raw.record_clock import Clock, clock_of, host_facts
from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.table_sink import Sink

_DAY_NS = 86_400 * 10**9
_STEP_MARK = r"^ProfilerStep#(\d{1,18})$"
_ON_HOST = "cpu_op_execute_timestamp"
_SHAPES, _DTYPES, _NAME, _STACK = 4, 3, 2, 8
_ENQUEUE_START, _ENQUEUE_END, _DEQUEUE_START, _DEQUEUE_END = range(4)
CALLS = {
    "kind": pl.String(), "name": pl.String(), "pid": pl.Int64(), "tid": pl.Int64(), "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(), "shapes": pl.String(), "dtypes": pl.String(), "sequence": pl.Int64(),
    "forward_tid": pl.Int64(), "stack": pl.String(),
}  # fmt: skip
"""Columns of calls as they come from the records, with stacks as text."""


def write_records(capture: Capture, sink: Sink) -> None:
    """Write `rank`, `setting`, `step`, `host_op`, `stack`, `flow`, `gc`, `memory` and `allocation` of a raw capture."""
    job = read_info(capture, sink)
    clock = clock_of(capture, json_beside(capture.info, sink) if capture.info else {})
    calls, flow = host_calls(capture, clock, sink)
    step = _steps(calls)
    sink.frame("step", step)
    stacks = calls.select("stack").drop_nulls().unique(maintain_order=True).with_row_index("stack_id")
    stacks = stacks.with_columns(pl.col("stack_id").cast(pl.Int64))
    rows = own_host(step, nest(calls.join(stacks, on="stack", how="left", maintain_order="left").drop("stack")))
    sink.frame("host_op", rows)
    frames = pl.col("stack").str.replace_all(r";\s*", "\n").str.strip_chars("\n").alias("frames")
    sink.frame("stack", stacks.select("stack_id", frames))
    sink.frame("flow", flow)
    _collections(capture, clock, sink)
    taken = _of(capture, "torch.memory_usage", decode_records.MEMORY_USAGE, sink, frozenset())
    write_memory(taken, clock, rows, sink)
    facts = host_facts(capture)
    sink.frame(
        "rank",
        pl.DataFrame(
            [
                {
                    "capture": capture.stamp,
                    "format": "ascend-raw",
                    "framework": capture.framework or job.framework,
                    "vendor": "ascend",
                    "device_id": job.device_id if job.device_id is not None else rank_number(facts.get("devices")),
                    "host": _text(facts.get("hostname")) or _text(facts.get("hostUid")),
                    "level": job.level,
                    "world_size": job.world_size,
                    "epoch_ns": 0 if clock.unix else None,
                    **job.places,
                }
            ],
            infer_schema_length=None,
        ),
    )


def host_calls(capture: Capture, clock: Clock, sink: Sink) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Two tables: the calls of the framework, Python and the task queue (columns of `CALLS`), and `flow`."""
    if capture.mindspore:
        ranges = _of(capture, "mindspore.op_range", decode_records.MINDSPORE_RANGE, sink, mindspore.FIELDS)
        on_host = mindspore.cpu_calls([path for path in capture.records if path.name.startswith(_ON_HOST)])
        both = pl.concat([part.select(list(CALLS)) for part in (mindspore.calls(ranges, clock), on_host)])
        return sound(both, sink), pl.DataFrame(schema=_FLOW)
    ops = _of(capture, "torch.op_range", decode_records.OP_RANGE, sink, frozenset({_NAME, _SHAPES, _DTYPES, _STACK}))
    marks = _of(capture, "torch.op_mark", decode_records.OP_MARK, sink, frozenset({1}))
    queue, flow = _queue(marks, clock)
    names = _of(capture, "torch.python_tracer_hash", decode_records.TRACER_HASH, sink, frozenset({1}))
    traced = _of(capture, "torch.python_tracer_func", decode_records.TRACER_FUNC, sink)
    parts = [_operators(ops, clock), queue, python_calls(traced, names, clock)]
    calls = pl.concat([part.select(pl.col(name).cast(kind) for name, kind in CALLS.items()) for part in parts])
    return sound(calls, sink), flow


def _of(
    capture: Capture, prefix: str, fixed: Struct, sink: Sink, wanted: frozenset[int] | None = None
) -> decode_records.Records:
    """All records of the files of that name; damaged records are noted."""
    found = decode_records.Records()
    for path in (path for path in capture.records if path.name.startswith(prefix)):
        try:
            one = decode_records.plain(path, fixed) if wanted is None else decode_records.chained(path, fixed, wanted)
        except (OSError, ValueError) as broken:
            sink.note("degraded", messages.unreadable(why=str(broken)), where=str(path), lost=messages.LOST_RECORDS)
            continue
        found.fixed += one.fixed
        found.fields += one.fields
        if one.broken:
            _broken(path, one.broken, sink)
    return found


def _broken(path: Path, count: int, sink: Sink) -> None:
    sink.note(
        "degraded",
        messages.records_damaged(n=count),
        where=str(path),
        lost=messages.lost_counted_records(n=count),
        hint=messages.DO_KILLED_RECORDING,
    )


def _operators(ops: decode_records.Records, clock: Clock) -> pl.DataFrame:
    fixed = _columns(ops, 9)
    name = pl.col("name")
    kind = (
        pl.when(name.str.contains(_STEP_MARK)).then(pl.lit("step"))
        .when(name.str.starts_with("mstx_")).then(pl.lit("mark"))
        .otherwise(pl.lit("op"))
    )  # fmt: skip
    start = clock.at(fixed[0])
    rows = pl.DataFrame(
        {
            "name": _texts(ops, _NAME, absent=""),
            "pid": fixed[3],
            "tid": fixed[4],
            "start_ns": start,
            "dur_ns": clock.at(fixed[1]) - start,
            "shapes": _texts(ops, _SHAPES),
            "dtypes": _texts(ops, _DTYPES),
            "sequence": fixed[2],
            "forward_tid": fixed[6],
            "stack": _texts(ops, _STACK),
        }
    )
    return rows.with_columns(
        kind.alias("kind"),
        *(pl.when(pl.col(text) != "").then(pl.col(text)).alias(text) for text in ("shapes", "dtypes", "stack")),
        pl.when(pl.col("sequence") >= 0).then(pl.col("sequence")),
        pl.when(pl.col("forward_tid") > 0).then(pl.col("forward_tid")),
    )


_FLOW = {
    "kind": pl.String(), "flow_id": pl.String(), "src_pid": pl.Int64(), "src_tid": pl.Int64(), "src_ns": pl.Int64(),
    "dst_pid": pl.Int64(), "dst_tid": pl.Int64(), "dst_ns": pl.Int64(),
}  # fmt: skip


def _queue(marks: decode_records.Records, clock: Clock) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Calls that put a task into the queue and take it out, and the arrows between them."""
    fixed = _columns(marks, 5)
    rows = pl.DataFrame(
        {
            "time": clock.at(fixed[0]),
            "category": fixed[1],
            "correlation": fixed[2],
            "tid": fixed[3],
            "pid": fixed[4],
            "name": _texts(marks, 1, absent=""),
        }
    )
    own = ["correlation", "tid", "pid", "name"]
    parts = []
    for kind, begin, end in (
        ("enqueue", _ENQUEUE_START, _ENQUEUE_END),
        ("dequeue", _DEQUEUE_START, _DEQUEUE_END),
    ):
        first = rows.filter(pl.col("category") == begin).group_by(own, maintain_order=True).agg(pl.col("time").min())
        last = rows.filter(pl.col("category") == end).group_by(own).agg(pl.col("time").max().alias("end"))
        both = first.join(last, on=own, maintain_order="left")
        parts.append(both.with_columns(pl.lit(kind).alias("kind")))
    calls = pl.concat(parts)
    named = calls.with_columns(
        pl.when(pl.col("kind") == "enqueue")
        .then(pl.lit("Enqueue@") + pl.col("name"))
        .otherwise(pl.lit("Dequeue@") + pl.col("name"))
        .alias("name"),
        pl.col("time").alias("start_ns"),
        (pl.col("end") - pl.col("time")).alias("dur_ns"),
        *(pl.lit(None).alias(name) for name in ("shapes", "dtypes", "sequence", "forward_tid", "stack")),
    )
    put, taken = (named.filter(pl.col("kind") == kind) for kind in ("enqueue", "dequeue"))
    pairs = put.join(taken, on="correlation", suffix="_out", maintain_order="left")
    flow = pairs.select(
        pl.lit("queue").alias("kind"),
        pl.col("correlation").cast(pl.String).alias("flow_id"),
        pl.col("pid").alias("src_pid"),
        pl.col("tid").alias("src_tid"),
        pl.col("start_ns").alias("src_ns"),
        pl.col("pid_out").alias("dst_pid"),
        pl.col("tid_out").alias("dst_tid"),
        pl.col("start_ns_out").alias("dst_ns"),
    )
    return named, flow


def _steps(calls: pl.DataFrame) -> pl.DataFrame:
    number = pl.col("name").str.extract(_STEP_MARK).cast(pl.Int64, strict=False).alias("step")
    marked = calls.filter(pl.col("kind") == "step")
    return marked.select(number, "start_ns", "dur_ns", "name").drop_nulls("step").sort("start_ns")


def _collections(capture: Capture, clock: Clock, sink: Sink) -> None:
    fixed = _columns(_of(capture, "torch.gc_record", decode_records.GC_RECORD, sink), 3)
    start = clock.at(fixed[1])
    rows = pl.DataFrame({"tid": fixed[0], "start_ns": start, "dur_ns": clock.at(fixed[2]) - start})
    sink.frame("gc", rows.filter(pl.col("dur_ns") >= 0).sort("start_ns"))


def sound(calls: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    """The calls with possible times; no capture lasts a day."""
    middle = calls["start_ns"].quantile(0.5, interpolation="nearest") or 0
    near = (pl.col("start_ns") - int(middle)).abs() < _DAY_NS
    kept = calls.filter((pl.col("dur_ns") >= 0) & (pl.col("dur_ns") < _DAY_NS) & near & (pl.col("start_ns") > 0))
    if lost := calls.height - kept.height:
        sink.note("degraded", messages.records_times(n=lost), lost=messages.lost_host_calls(n=lost))
    return kept


def _columns(found: decode_records.Records, count: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The fixed parts by column; numbers that do not fit wrap, as the writer's do."""
    if not found.fixed:
        return [np.zeros(0, dtype=np.int64)] * count
    return [np.array(column, dtype=np.uint64 if _large(column) else np.int64).astype(np.int64)
            for column in zip(*found.fixed, strict=True)]  # fmt: skip


def _large(column: tuple[int, ...]) -> bool:
    return max(column) > np.iinfo(np.int64).max


def _texts(found: decode_records.Records, number: int, absent: str | None = None) -> pl.Series:
    return pl.Series([fields.get(number, absent) for fields in found.fields], dtype=pl.String)


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) and value else None
