"""The tasks of a device without duplicates, and the intervals in which it computed, communicated and copied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import EMPTY, Intervals, Ints, union_of_intervals
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS

NONE = -1
"""A moment or a number of a task that is not known."""
_PARTS = ("compute", "comm", "copy")
_PART = (
    pl.col("component")
    .replace_strict({name: place for place, name in enumerate(_PARTS)}, default=len(_PARTS), return_dtype=pl.UInt8)
    .alias("part")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """The work of a device as three sets of intervals."""

    compute: Intervals = EMPTY
    comm: Intervals = EMPTY
    copy: Intervals = EMPTY


def tasks_of_device(kernel: pl.DataFrame, comm_op: pl.DataFrame, *more: str) -> pl.DataFrame:
    """The device's work: kernels and copies, and communication as operations if they are recorded.

    Ascend shows each collective as one operation and again as its transfers and waits on streams: only the operation
    counts. Operations without any device row (gloo on a CPU) are no device work.
    """
    columns = ["component", "start_ns", "dur_ns", "step", *more]
    own, operations = counted_tasks(kernel, comm_op)
    return pl.concat([own.select(columns), operations.select(columns)]).with_columns(_PART)


def counted_tasks(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of `kernel` and of `comm_op` that are the device's work, as for `tasks_of_device`."""
    if not kernel.height and SHOWN_AS_OPERATIONS not in comm_op["library"]:
        return kernel, comm_op.clear().with_columns(pl.lit("comm").alias("component"))
    work = _PARTS[::2] if comm_op.height else _PARTS
    return kernel.filter(pl.col("component").is_in(work)), comm_op.with_columns(pl.lit("comm").alias("component"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTasks:
    """The device's tasks by start, with `part` as an index into `compute, comm, copy`; `NONE` for what is not known.

    A task ends where the next task on its stream begins.
    """

    start: Ints
    end: Ints
    part: Ints
    launch_ns: Ints
    step: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def work(self) -> DeviceWork:
        """The times in which the tasks computed, communicated and copied."""
        return _work(self.part, self.start, self.end)


def device_tasks(kernel: pl.DataFrame, comm_op: pl.DataFrame) -> DeviceTasks:
    """The device's tasks, with the columns of `tasks_in_order` and `launch_ns` and `step` besides."""
    rows = tasks_in_order(kernel, comm_op, "launch_ns", "step")
    start, end, part, launch_ns, step = (
        rows[name].cast(pl.Int64).fill_null(NONE).to_numpy()
        for name in ("start_ns", "end_ns", "part", "launch_ns", "step")
    )
    return DeviceTasks(start=start, end=end, part=part, launch_ns=launch_ns, step=step)


def tasks_in_order(kernel: pl.DataFrame, comm_op: pl.DataFrame, *more: str) -> pl.DataFrame:
    """The rows of `tasks_of_device` by start, with `stream`, and `end_ns`: where the next task on its stream begins."""
    end_ns = (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")
    columns = [_PART, end_ns, *map(pl.col, ("start_ns", "stream", *more))]
    own, operations = counted_tasks(kernel, comm_op)
    nowhere = pl.lit(None, dtype=pl.Int64).alias("device_id")
    rows = pl.concat([
        operations.select(*columns, nowhere, pl.lit(value=False).alias("in_order")),
        own.select(*columns, "device_id", pl.lit(value=True).alias("in_order")),
    ]).sort("start_ns", "end_ns", maintain_order=True)  # fmt: skip
    return rows.with_columns(pl.Series("end_ns", ends_in_order(rows)))


def ends_in_order(rows: pl.DataFrame) -> Ints:
    """The ends of tasks: a stream is in order, so no task on it outlasts the start of the next task.

    `rows` are by start, with `start_ns, end_ns, device_id, stream`; `in_order` says which are tasks of their stream.
    """
    following = pl.col("start_ns").shift(-1).over("device_id", "stream")
    latest = rows.select(
        pl.when(pl.col("stream").is_not_null() & pl.col("in_order")).then(following).alias("next")
    )["next"].fill_null(np.iinfo(np.int64).max)  # fmt: skip
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    return np.asarray(np.maximum(np.minimum(end, latest.to_numpy()), start), dtype=np.int64)


def work_of(tasks: pl.DataFrame) -> DeviceWork:
    """The times in which the tasks, given by `tasks_of_device`, computed, communicated and copied."""
    starts = tasks["start_ns"].to_numpy()
    return _work(tasks["part"].to_numpy(), starts, starts + tasks["dur_ns"].to_numpy())


def _work(part: Ints, starts: Ints, ends: Ints) -> DeviceWork:
    own = (part == place for place in range(len(_PARTS)))
    return DeviceWork(
        **{
            name: union_of_intervals(starts[mine], ends[mine])
            for name, mine in zip(_PARTS, own, strict=True)
            if mine.any()
        }
    )


def flat_of(rows: pl.DataFrame) -> Intervals:
    """The times in which any of the rows ran."""
    starts = rows["start_ns"].to_numpy()
    return union_of_intervals(starts, starts + rows["dur_ns"].to_numpy()) if len(starts) else EMPTY
