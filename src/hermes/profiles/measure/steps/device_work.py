"""The tasks of a device without duplicates, and the intervals in which it computed, communicated and copied."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, union_of_intervals
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS

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

    @property
    def span(self) -> tuple[int, int] | None:
        """The span of compute and communication; copies alone open no window, as in Ascend's tools."""
        return (self.compute | self.comm).span or self.copy.span


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


def work_of(tasks: pl.DataFrame) -> DeviceWork:
    """The times in which the tasks, given by `tasks_of_device`, computed, communicated and copied."""
    # NumPy is used because a capture has many steps, and Polars would queue each small filter behind its large ones.
    starts, part = tasks["start_ns"].to_numpy(), tasks["part"].to_numpy()
    ends = starts + tasks["dur_ns"].to_numpy()
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
