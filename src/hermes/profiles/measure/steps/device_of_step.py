"""The device's work on a rank, shared by several measures: tasks, busy times, and the rows of the typical step."""

from __future__ import annotations

import polars as pl

from hermes.base.intervals import Intervals
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS
from hermes.profiles.measure.host.select_host_calls import spans
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.steps.breakdown import typical_of

_CALLS = (
    "kind", "name", "pid", "tid", "start_ns", "dur_ns", "forward_tid", "stack_id", "sequence", "correlation",
)  # fmt: skip


def tasks_of(rank: RankTables) -> pl.DataFrame:
    """The device's tasks with their launches; collectives count as operations."""
    kernel, comm_op = rank.table("kernel"), rank.table("comm_op")
    columns = ["component", "device_id", "start_ns", "dur_ns", "launch_ns", "step"]
    work = ["compute", "copy"] if comm_op.height else ["compute", "copy", "comm"]
    own = kernel.filter(pl.col("component").is_in(work)).select(columns)
    devices = own["device_id"].drop_nulls().unique()
    device = int(devices[0]) if len(devices) == 1 else None
    if not kernel.height and SHOWN_AS_OPERATIONS not in comm_op["library"]:
        return own
    comm = comm_op.with_columns(pl.lit("comm").alias("component"), pl.lit(device, dtype=pl.Int64).alias("device_id"))
    return pl.concat([own, comm.select(columns)])


def parts_of(rank: RankTables) -> dict[str, Intervals]:
    """The times in which the device computed, communicated and copied, over the capture."""
    tasks = rank.once(tasks_of)
    return {name: spans(tasks.filter(pl.col("component") == name)) for name in ("compute", "comm", "copy")}


def busy_of(rank: RankTables) -> Intervals | None:
    """The times in which the device worked; None if no device task is recorded."""
    parts = rank.once(parts_of)
    return parts["compute"] | parts["comm"] | parts["copy"] if rank.once(tasks_of).height else None


def step_bounds(rank: RankTables) -> tuple[int, int, int, int] | None:
    """Bounds of the typical step in ns: start and end of the host's mark, then of mark and window together.

    None without a step.
    """
    split = rank.once(typical_of)
    if split is None:
        return None
    step = rank.table("step")
    mark = step.filter(pl.col("step") == split.step) if split.step is not None else step.clear()
    start = int(mark["start_ns"][0]) if mark.height else split.start_ns
    end = start + int(mark["dur_ns"][0]) if mark.height else split.start_ns + split.window_ns
    return start, end, min(start, split.start_ns), max(end, split.start_ns + split.window_ns)


def step_calls(rank: RankTables) -> pl.DataFrame:
    """The calls of the host that overlap the typical step; empty without a step."""
    bounds = rank.once(step_bounds)
    return rank.data.between("host_op", _CALLS, *(bounds[2:] if bounds else (0, 0)))


def step_arrows(rank: RankTables) -> pl.DataFrame:
    """The arrows that end in the typical step."""
    columns = ("kind", "src_pid", "src_tid", "src_ns", "dst_tid", "dst_ns")
    bounds = rank.once(step_bounds)
    return rank.data.between("flow", columns, *(bounds[2:] if bounds else (0, 0)))


def step_kernels(rank: RankTables) -> pl.DataFrame:
    """The kernels that overlap the typical step."""
    bounds = rank.once(step_bounds)
    return reaching(rank.table("kernel"), *bounds[2:]) if bounds else rank.table("kernel").clear()


def reaching(device: pl.DataFrame, first_ns: int, last_ns: int) -> pl.DataFrame:
    """Tasks that were launched or began before the end of a stretch, and end after its start."""
    begun = pl.col("start_ns") < last_ns
    return device.filter(
        (pl.coalesce(pl.col("launch_ns") < last_ns, begun) | begun) & (pl.col("start_ns") + pl.col("dur_ns") > first_ns)
    )
