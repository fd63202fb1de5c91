"""Splits steps, ranks and streams into compute, communication, copies and free time, exactly by intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, covered_lengths
from hermes.knowledge.vendor_traits import traits
from hermes.model.step_measures import AscendSplit, ExposedOp, RankTotal, StepSplit, StreamBusy
from hermes.model.tables.unmarked_steps import FOUND, WHOLE
from hermes.model.typical_step import typical_step
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.capture_extent import NO_CALLS, capture_extent, is_marked
from hermes.profiles.measure.steps.device_work import (
    NONE,
    DeviceWork,
    device_tasks,
    flat_of,
    tasks_in_order,
    tasks_of_device,
    work_of,
)
from hermes.profiles.measure.steps.step_window import Windows, windows_of


def step_splits(
    step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame, host_op: pl.LazyFrame = NO_CALLS
) -> tuple[StepSplit, ...]:
    """One row per step of one rank, in step order; one row for the whole capture if no step is known.

    The steps are those of the time tree, and their parts are the device's work in them: see `windows_of`. The tables
    need the columns of `device_tasks`; `host_op` is read only of a capture without marks.
    """
    rank = _rank(step, kernel, comm_op)
    if rank is None:
        rank = _rank(host_op.select("rank").head(1).collect())
    tasks = device_tasks(kernel, comm_op)
    windows = windows_of(step, tasks, partial(capture_extent, step, kernel, comm_op, host_op))
    if rank is None:
        return ()
    marks = {
        mark.step: mark for mark in map(_Mark._make, step.select("step", "start_ns", "dur_ns", "name").iter_rows())
    }
    numbers = windows.step.tolist()
    if step.height and not is_marked(step):
        numbers = list(marks)[: len(windows)]
    own = [marks.get(number) for number in numbers]
    parts = _parts(tasks.work, windows, own) if len(tasks) else {}
    lengths, starts = windows.lengths.tolist(), windows.start.tolist()
    return tuple(
        StepSplit(
            rank=rank, step=None if number == NONE else number, window_kind=_kind(number, mark, measured=bool(parts)),
            start_ns=start, window_ns=length, host_ns=mark.dur_ns if mark else None,
            **{name: parts[name][at] if parts else None for name in _MEASURED},
        )
        for at, (number, mark, start, length) in enumerate(zip(numbers, own, starts, lengths, strict=True))
    )  # fmt: skip


class _Mark(NamedTuple):
    step: int
    start_ns: int
    dur_ns: int
    name: str


_MEASURED = (
    "compute_ns", "comm_ns", "exposed_comm_ns", "overlapped_comm_ns", "copy_ns", "copy_exposed_ns", "free_ns",
    "preparing_ns",
)  # fmt: skip


def _kind(number: int, mark: _Mark | None, *, measured: bool) -> Literal["device", "host", "found", "capture"]:
    if mark is None:
        return "capture" if number == NONE else "device"
    if mark.name == WHOLE:
        return "capture"
    return "found" if mark.name.startswith(FOUND) else "device" if measured else "host"


def _parts(work: DeviceWork, windows: Windows, marks: Sequence[_Mark | None]) -> dict[str, list[int | None]]:
    """The device's work in each step, by the name of its field in a split."""
    exposed = work.comm - work.compute
    copies = work.copy - work.compute - work.comm
    busy = work.compute | exposed | copies
    inside = {
        "compute_ns": work.compute, "comm_ns": work.comm, "exposed_comm_ns": exposed,
        "overlapped_comm_ns": work.comm & work.compute, "copy_ns": work.copy, "copy_exposed_ns": copies,
    }  # fmt: skip
    found = {name: covered_lengths(own, windows.start, windows.end).tolist() for name, own in inside.items()}
    found["free_ns"] = (windows.lengths - covered_lengths(busy, windows.start, windows.end)).tolist()
    begun = [start if number == NONE else mark and max(mark.start_ns, start) for number, mark, start in zip(
        windows.step.tolist(), marks, windows.start.tolist(), strict=True
    )]  # fmt: skip
    found["preparing_ns"] = [
        None if begin is None else _idle_ns(busy, begin, end)
        for begin, end in zip(begun, windows.end.tolist(), strict=True)
    ]
    return found


def _idle_ns(busy: Intervals, since: int, until: int) -> int | None:
    """How long the device did nothing from a moment on; None if it did nothing any more."""
    work = busy.clip(since, until).span
    return work[0] - since if work else None


def ascend_splits(step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> tuple[AscendSplit, ...]:
    """One row per step by the definition of `step_trace_time` (docs/decisions/0003), computed from the tasks."""
    rank = _rank(step, kernel, comm_op)
    tasks = tasks_of_device(kernel, comm_op).filter(pl.col("component") != "copy")
    if rank is None or not tasks.height:
        return ()
    starts = dict(step.select("step", "start_ns").iter_rows())
    waits = comm_op.filter(pl.col("op") == "recv").group_by("step").agg(pl.col("dur_ns").sum())
    bubbles: dict[int | None, int] = dict(waits.iter_rows())
    return tuple(
        _ascend(rank, number, work_of(rows), bubbles.get(number, 0), starts.get(number))
        for number, rows in _by_step(tasks)
    )


def _by_step(tasks: pl.DataFrame) -> Iterator[tuple[int | None, pl.DataFrame]]:
    """The rows of each step, in step order; if no row has a step, all rows under None."""
    parts = tasks.partition_by("step", as_dict=True)
    numbers = sorted(number for (number,) in parts if number is not None)
    for number in numbers or ([None] if tasks.height else []):
        yield number, parts[(number,)]


def summed_splits(step_reported: pl.DataFrame) -> tuple[StepSplit, ...]:
    """The steps of a rank that has only the profiler's own split; their start is unknown.

    Copies are part of the free time.
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
    """The rows of the profiler's own step file, in the form of the same measure."""
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
    """The time of all device rows of one rank; None if there are none."""
    tasks = tasks_of_device(kernel, comm_op)
    rank = _rank(kernel, comm_op)
    if rank is None or not tasks.height:
        return None
    work = work_of(tasks)
    busy = device_busy(kernel, comm_op)
    # A task of no length still extends the span.
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
    """The times in which the device of one rank computed, communicated or copied."""
    work = work_of(tasks_of_device(kernel, comm_op))
    return work.compute | work.comm | work.copy


def tasks_of_lanes(
    split: StepSplit, kernel: pl.DataFrame, comm_op: pl.DataFrame, groups: Mapping[str, str]
) -> pl.DataFrame:
    """A rank's tasks with their `lane`, for a split: a copy's direction, a collective's group."""
    comm = pl.col("group").replace_strict(dict(groups), default=pl.col("group"), return_dtype=pl.String)
    lanes = kernel.with_columns(pl.when(pl.col("component") == "copy").then("direction").alias("lane"))
    operations = comm_op.with_columns(comm.alias("lane"))
    if split.compute_ns is None:
        # A machine without accelerator communicates on its host.
        return operations.with_columns(pl.lit("comm").alias("component"))
    rows = tasks_in_order(lanes, operations, "component", "lane")
    return rows.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))


def stream_busy(kernel: pl.DataFrame) -> tuple[StreamBusy, ...]:
    """The busy time of each stream and component of one rank, one row each."""
    rank = _rank(kernel)
    rows = kernel.select("stream", "component", "start_ns", "dur_ns").filter(pl.col("component") != "other")
    found = [
        StreamBusy(rank=rank or 0, stream=stream, component=component, tasks=own.height, busy_ns=flat_of(own).total)
        for (stream, component), own in rows.partition_by("stream", "component", as_dict=True).items()
    ]
    return tuple(sorted(found, key=lambda row: (row.stream is None, row.stream or 0, row.component)))


def _rank(*tables: pl.DataFrame) -> int | None:
    return next((int(table["rank"][0]) for table in tables if table.height), None)


def _ascend(rank: int, step: int | None, work: DeviceWork, bubble_ns: int, host_start: int | None) -> AscendSplit:
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
    """Exposed communication of one rank in ns by operation (`all_reduce`, …), each compared with compute alone."""
    compute = work_of(tasks_of_device(kernel, comm_op)).compute
    parts = comm_op.partition_by("op", as_dict=True)
    return {
        str(op): (flat_of(rows) - compute).total for (op,), rows in sorted(parts.items(), key=lambda part: str(part[0]))
    }


def spread(values: list[int]) -> tuple[int, int, int]:
    """Minimum, median and maximum in ns; an even count's median is the mean of the middle two, rounded down."""
    array = np.sort(np.asarray(values, dtype=np.int64))
    middle = len(array) // 2
    median = int(array[middle]) if len(array) % 2 else int((array[middle - 1] + array[middle]) // 2)
    return int(array[0]), median, int(array[-1])


_KERNEL = ("rank", "component", "start_ns", "dur_ns", "step", "stream", "device_id", "launch_ns", "direction")
_COMM_OP = ("rank", "library", "op", "start_ns", "dur_ns", "step", "group", "launch_ns", "stream")


def splits_of(rank: RankTables) -> tuple[StepSplit, ...]:
    """The steps of a rank with their split into parts."""
    return rank.once(_splits)


def _splits(rank: RankTables) -> tuple[StepSplit, ...]:
    step, kernel, comm_op = (rank.table(name) for name in ("step", "kernel", "comm_op"))
    return step_splits(step, kernel, comm_op, rank.data.scan("host_op"))


def typical_of(rank: RankTables) -> StepSplit | None:
    """The typical step of a rank; None if it has no length."""
    split = typical_step(rank.once(_splits))
    return split if split is not None and split.window_ns > 0 else None


@per_rank(AscendSplit, beside=("step_reported",))
def ascend_of(rank: RankTables) -> tuple[AscendSplit, ...]:
    """The steps by Ascend's definition: first as computed from tasks, then as in Ascend's own file."""
    if not traits(rank.vendor).step_file:
        return ()
    computed = ascend_splits(rank.table("step"), rank.table("kernel"), rank.table("comm_op"))
    return (*computed, *reported_splits(rank.table("step_reported")))


@per_rank(RankTotal, needs={"kernel": _KERNEL, "comm_op": _COMM_OP})
def total_of(rank: RankTables) -> RankTotal | None:
    """The time of all device rows of a rank."""
    return rank_total(rank.table("kernel"), rank.table("comm_op"))


@per_rank(StreamBusy)
def streams_of(rank: RankTables) -> tuple[StreamBusy, ...]:
    """The busy time of each stream of a rank."""
    return stream_busy(rank.table("kernel"))


@per_rank(ExposedOp)
def exposed_of(rank: RankTables) -> tuple[ExposedOp, ...]:
    """Exposed communication of a rank by operation."""
    found = exposed_by_op(rank.table("kernel"), rank.table("comm_op"))
    return tuple(ExposedOp(rank=rank.rank, op=op, exposed_ns=ns) for op, ns in found.items())
