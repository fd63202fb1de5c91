"""Splits steps, ranks and streams into compute, communication, copies and free time by exact interval algebra."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, flat, window
from hermes.knowledge.vendors import SHOWN_AS_OPERATIONS, traits
from hermes.model.measures import AscendSplit, ExposedOp, RankTotal, StepSplit, StreamBusy
from hermes.model.tables.step import FOUND
from hermes.model.typical_step import typical_step
from hermes.profiles.measure.registry import RankTables, per_rank

_PARTS = ("compute", "comm", "copy")
_PART = (
    pl.col("component")
    .replace_strict({name: place for place, name in enumerate(_PARTS)}, default=len(_PARTS), return_dtype=pl.UInt8)
    .alias("part")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a device did, as three sets of intervals."""

    compute: Intervals = EMPTY
    comm: Intervals = EMPTY
    copy: Intervals = EMPTY

    @property
    def span(self) -> tuple[int, int] | None:
        """From the first to the last compute or communication; copies alone open no window, as in Ascend's tools."""
        return (self.compute | self.comm).span or self.copy.span


def step_splits(vendor: str, step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> tuple[StepSplit, ...]:
    """One row per step of one rank, in step order; one row for the whole capture when no step was marked.

    On Ascend a step's window is the device's, and holds the work that the step launched. Elsewhere it is the host's
    mark, and holds what the device did in that time. See docs/decisions/0003.
    """
    rank = _rank(step, kernel, comm_op)
    if rank is None:
        return ()
    tasks = _tasks(kernel, comm_op)
    if not step.height and tasks["step"].null_count() == tasks.height:
        return _capture_split(rank, _work(tasks)) if tasks.height else ()
    if traits(vendor).window == "device":
        return tuple(_device_splits(rank, step, tasks))
    return tuple(_host_splits(rank, step, tasks))


def ascend_splits(step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> tuple[AscendSplit, ...]:
    """One row per step by the definition of `step_trace_time` (docs/decisions/0003), computed from the tasks."""
    rank = _rank(step, kernel, comm_op)
    tasks = _tasks(kernel, comm_op).filter(pl.col("component") != "copy")
    if rank is None or not tasks.height:
        return ()
    starts = dict(step.select("step", "start_ns").iter_rows())
    waits = comm_op.filter(pl.col("op") == "recv").group_by("step").agg(pl.col("dur_ns").sum())
    bubbles: dict[int | None, int] = dict(waits.iter_rows())
    return tuple(
        _ascend(rank, number, _work(rows), bubbles.get(number, 0), starts.get(number))
        for number, rows in _by_step(tasks)
    )


def summed_splits(step_reported: pl.DataFrame) -> tuple[StepSplit, ...]:
    """The steps of a rank of which only the profiler's own split is there; when they began is not known.

    Copies are part of its free time.
    """
    return tuple(
        StepSplit(
            rank=row["rank"],
            step=row["step"],
            window_kind="device",
            start_ns=0,
            window_ns=row["compute_ns"] + row["exposed_comm_ns"] + row["free_ns"],
            compute_ns=row["compute_ns"],
            comm_ns=row["comm_ns"],
            exposed_comm_ns=row["exposed_comm_ns"],
            overlapped_comm_ns=row["overlapped_ns"],
            copy_ns=0,
            copy_exposed_ns=0,
            free_ns=row["free_ns"],
            preparing_ns=row["preparing_ns"],
            host_ns=None,
        )
        for row in step_reported.sort("rank", "step").iter_rows(named=True)
    )


def reported_splits(step_reported: pl.DataFrame) -> tuple[AscendSplit, ...]:
    """The rows of the profiler's own file, as the same measure."""
    return tuple(
        AscendSplit(
            rank=row["rank"],
            step=row["step"],
            source="reported",
            compute_ns=row["compute_ns"],
            exposed_comm_ns=row["exposed_comm_ns"],
            overlapped_ns=row["overlapped_ns"],
            comm_ns=row["comm_ns"],
            free_ns=row["free_ns"],
            stage_ns=row["stage_ns"],
            bubble_ns=row["bubble_ns"],
            preparing_ns=row["preparing_ns"],
        )
        for row in step_reported.sort("rank", "step").iter_rows(named=True)
    )


def rank_total(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> RankTotal | None:
    """All device rows of one rank together; None when there are none."""
    tasks = _tasks(kernel, comm_op)
    rank = _rank(kernel, comm_op)
    if rank is None or not tasks.height:
        return None
    work = _work(tasks)
    busy = device_busy(kernel, comm_op)
    # A task of no length still opens and closes the span.
    starts = tasks["start_ns"].to_numpy()
    span_ns = int((starts + tasks["dur_ns"].to_numpy()).max() - starts.min())
    return RankTotal(
        rank=rank,
        tasks=tasks.height,
        span_ns=span_ns,
        busy_ns=busy.total,
        idle_ns=span_ns - busy.total,
        compute_ns=work.compute.total,
        comm_ns=work.comm.total,
        exposed_comm_ns=(work.comm - work.compute).total,
        copy_ns=work.copy.total,
        copy_exposed_ns=(work.copy - work.compute - work.comm).total,
        task_ns=int(tasks["dur_ns"].sum()),
    )


def device_busy(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> Intervals:
    """When the device of one rank computed, communicated or copied."""
    work = _work(_tasks(kernel, comm_op))
    return work.compute | work.comm | work.copy


def free_of(split: StepSplit, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> Intervals:
    """When the device of one rank had nothing to do in the window of a step; as long as its `free_ns` in sum."""
    tasks = _tasks(kernel, comm_op)
    if split.window_kind == "device" and split.step is not None:
        # The window is the device's own, and holds what the step launched.
        tasks = tasks.filter(pl.col("step") == split.step)
    work = _work(tasks)
    end = split.start_ns + split.window_ns
    return window(split.start_ns, end) - work.compute - work.comm - work.copy


def owned_tasks(
    split: StepSplit, kernel: pl.DataFrame, comm_op: pl.DataFrame, groups: Mapping[str, str]
) -> pl.DataFrame:
    """The tasks that the split of a step rests on, with their `lane`: a copy's direction, a collective's group."""
    comm = pl.col("group").replace_strict(dict(groups), default=pl.col("group"), return_dtype=pl.String)
    lanes = kernel.with_columns(pl.when(pl.col("component") == "copy").then("direction").alias("lane"))
    operations = comm_op.with_columns(comm.alias("lane"))
    if split.compute_ns is None:
        # A machine without accelerator communicates on its host.
        rows = operations.with_columns(pl.lit("comm").alias("component"))
        return rows.select("component", "start_ns", "dur_ns", "step", "lane")
    tasks = _tasks(lanes, operations, "lane")
    if split.window_kind == "device" and split.step is not None:
        tasks = tasks.filter(pl.col("step") == split.step)
    return tasks


def stream_busy(kernel: pl.DataFrame) -> tuple[StreamBusy, ...]:
    """One row per stream and component of one rank."""
    rank = _rank(kernel)
    rows = kernel.filter(pl.col("component") != "other").partition_by("stream", "component", as_dict=True)
    found = [
        StreamBusy(rank=rank or 0, stream=stream, component=component, tasks=own.height, busy_ns=_flat(own).total)
        for (stream, component), own in rows.items()
    ]
    return tuple(sorted(found, key=lambda row: (row.stream is None, row.stream or 0, row.component)))


def _rank(*tables: pl.DataFrame) -> int | None:
    return next((int(table["rank"][0]) for table in tables if table.height), None)


def _tasks(kernel: pl.DataFrame, comm_op: pl.DataFrame, *more: str) -> pl.DataFrame:
    """The device's work: kernels and copies, and communication as operations where they are recorded.

    Ascend shows each collective as one operation and again as its transfers and waits on streams: only the
    operation counts. Operations without any device row (gloo on a CPU) are no device work.
    """
    columns = ["component", "start_ns", "dur_ns", "step", *more]
    if not kernel.height and SHOWN_AS_OPERATIONS not in comm_op["library"]:
        return kernel.select(columns).with_columns(_PART)
    work = ["compute", "copy"] if comm_op.height else ["compute", "copy", "comm"]
    own = kernel.filter(pl.col("component").is_in(work)).select(columns)
    comm = comm_op.select(pl.lit("comm").alias("component"), *columns[1:])
    return pl.concat([own, comm]).with_columns(_PART)


def _work(tasks: pl.DataFrame) -> _Work:
    # With NumPy: a capture has many steps, and Polars would queue each of their small filters behind its large ones.
    starts, part = tasks["start_ns"].to_numpy(), tasks["part"].to_numpy()
    ends = starts + tasks["dur_ns"].to_numpy()
    own = (part == place for place in range(len(_PARTS)))
    return _Work(**{name: flat(starts[mine], ends[mine]) for name, mine in zip(_PARTS, own, strict=True) if mine.any()})


def _flat(rows: pl.DataFrame) -> Intervals:
    starts = rows["start_ns"].to_numpy()
    return flat(starts, starts + rows["dur_ns"].to_numpy()) if len(starts) else EMPTY


def _by_step(tasks: pl.DataFrame) -> Iterator[tuple[int | None, pl.DataFrame]]:
    """Each step's rows, in step order; the rows of no step, as None, only where there is no step at all."""
    parts = tasks.partition_by("step", as_dict=True)
    numbers = sorted(number for (number,) in parts if number is not None)
    for number in numbers or ([None] if tasks.height else []):
        yield number, parts[(number,)]


def _capture_split(rank: int, work: _Work) -> tuple[StepSplit, ...]:
    span = (work.compute | work.comm | work.copy).span
    return (_split(rank, None, "capture", span, work, None, None),) if span else ()


def _device_splits(rank: int, step: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[StepSplit]:
    marks = {
        number: (start, start + length)
        for number, start, length in step.select("step", "start_ns", "dur_ns").iter_rows()
    }
    owned = dict(_by_step(tasks))
    for number in sorted({*marks, *(number for number in owned if number is not None)}):
        mark = marks.get(number)
        work = _work(owned[number]) if number in owned else _Work()
        if work.span:
            yield _split(rank, number, "device", work.span, work, mark, work.span[0])
        elif mark:
            yield _split(rank, number, "host", mark, work if tasks.height else None, mark, None)


def _host_splits(rank: int, step: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[StepSplit]:
    work = _work(tasks)
    busy = work.compute | work.comm | work.copy
    rows = step.sort("start_ns").select("step", "start_ns", "dur_ns", pl.col("name").str.starts_with(FOUND))
    for number, start, length, found in rows.iter_rows():
        mark = (start, start + length)
        # What the device still does for the step before counts in the window, and so does not make it prepare.
        inside = busy.clip(*mark).span
        kind: Literal["host", "found"] = "found" if found else "host"
        yield _split(rank, number, kind, mark, work if tasks.height else None, mark, inside[0] if inside else None)


def _split(
    rank: int,
    step: int | None,
    kind: Literal["device", "host", "found", "capture"],
    span: tuple[int, int],
    work: _Work | None,
    mark: tuple[int, int] | None,
    first_ns: int | None,
) -> StepSplit:
    start, end = span
    host_ns = mark[1] - mark[0] if mark else None
    if work is None:
        return StepSplit(
            rank=rank,
            step=step,
            window_kind=kind,
            start_ns=start,
            window_ns=end - start,
            compute_ns=None,
            comm_ns=None,
            exposed_comm_ns=None,
            overlapped_comm_ns=None,
            copy_ns=None,
            copy_exposed_ns=None,
            free_ns=None,
            preparing_ns=None,
            host_ns=host_ns,
        )
    compute, comm, copy = (part.clip(start, end) for part in (work.compute, work.comm, work.copy))
    exposed = comm - compute
    return StepSplit(
        rank=rank,
        step=step,
        window_kind=kind,
        start_ns=start,
        window_ns=end - start,
        compute_ns=compute.total,
        comm_ns=comm.total,
        exposed_comm_ns=exposed.total,
        overlapped_comm_ns=(comm & compute).total,
        copy_ns=copy.total,
        copy_exposed_ns=(copy - compute - comm).total,
        free_ns=(window(start, end) - compute - comm - copy).total,
        preparing_ns=first_ns - mark[0] if mark and first_ns is not None else None,
        host_ns=host_ns,
    )


def _ascend(rank: int, step: int | None, work: _Work, bubble_ns: int, host_start: int | None) -> AscendSplit:
    busy = work.compute | work.comm
    # A step whose tasks all have no length has an empty window.
    start, end = busy.span or (0, 0)
    return AscendSplit(
        rank=rank,
        step=step,
        source="computed",
        compute_ns=work.compute.total,
        exposed_comm_ns=(work.comm - work.compute).total,
        overlapped_ns=(work.comm & work.compute).total,
        comm_ns=work.comm.total,
        free_ns=end - start - busy.total,
        stage_ns=end - start - bubble_ns,
        bubble_ns=bubble_ns,
        preparing_ns=start - host_start if host_start is not None and busy.span else None,
    )


def exposed_by_op(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> dict[str, int]:
    """Exposed nanoseconds of one rank by operation (`all_reduce`, …), each against compute alone."""
    compute = _work(_tasks(kernel, comm_op)).compute
    parts = comm_op.partition_by("op", as_dict=True)
    return {
        str(op): (_flat(rows) - compute).total for (op,), rows in sorted(parts.items(), key=lambda part: str(part[0]))
    }


def spread(values: list[int]) -> tuple[int, int, int]:
    """Minimum, median and maximum of some nanoseconds; the median of an even count is the lower middle rounded half."""
    array = np.sort(np.asarray(values, dtype=np.int64))
    middle = len(array) // 2
    median = int(array[middle]) if len(array) % 2 else int((array[middle - 1] + array[middle]) // 2)
    return int(array[0]), median, int(array[-1])


_KERNEL = ("rank", "component", "start_ns", "dur_ns", "step", "stream", "device_id", "launch_ns", "direction")
_COMM_OP = ("rank", "library", "op", "start_ns", "dur_ns", "step", "group", "launch_ns")


def splits_of(rank: RankTables) -> tuple[StepSplit, ...]:
    """The steps of a rank."""
    return rank.once(_splits)


def _splits(rank: RankTables) -> tuple[StepSplit, ...]:
    return step_splits(rank.vendor, rank.table("step"), rank.table("kernel"), rank.table("comm_op"))


def typical_of(rank: RankTables) -> StepSplit | None:
    """The typical step of a rank, where it has a length."""
    split = typical_step(rank.once(_splits))
    return split if split is not None and split.window_ns > 0 else None


@per_rank(AscendSplit)
def ascend_of(rank: RankTables) -> tuple[AscendSplit, ...]:
    """The steps by Ascend's definition: computed, then as its own file has them."""
    if not traits(rank.vendor).step_file:
        return ()
    computed = ascend_splits(rank.table("step"), rank.table("kernel"), rank.table("comm_op"))
    return (*computed, *reported_splits(rank.table("step_reported")))


@per_rank(RankTotal, needs={"kernel": _KERNEL, "comm_op": _COMM_OP})
def total_of(rank: RankTables) -> RankTotal | None:
    """All device rows of a rank."""
    return rank_total(rank.table("kernel"), rank.table("comm_op"))


@per_rank(StreamBusy)
def streams_of(rank: RankTables) -> tuple[StreamBusy, ...]:
    """The streams of a rank."""
    return stream_busy(rank.table("kernel"))


@per_rank(ExposedOp)
def exposed_of(rank: RankTables) -> tuple[ExposedOp, ...]:
    """Exposed communication by operation."""
    found = exposed_by_op(rank.table("kernel"), rank.table("comm_op"))
    return tuple(ExposedOp(rank=rank.rank, op=op, exposed_ns=ns) for op, ns in found.items())
