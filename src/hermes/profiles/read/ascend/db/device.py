"""Reads the device side of a database: kernels and their hardware counters.

Traps: `blockDim` became `blockNum` and then got a second meaning. A mixed kernel and a collective are each one task
over sub-tasks with a context id, and both rows are in TASK. Transfers inside a collective are in TASK too.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.knowledge.ascend_codes import (
    COMM_KERNEL,
    COMPONENT_OF_UNIT,
    COMPUTE_UNITS,
    COPY_DIRECTION,
    NONE_32,
    UNIT_OF_TASK,
)
from hermes.profiles.read.ascend.db.capture_databases import (
    Profile,
    WantedColumns,
    number_or_null,
    shapes,
    text_or_null,
)
from hermes.profiles.read.ascend.db.host import Host
from hermes.profiles.read.ascend.db.task_launches import Launches
from hermes.profiles.read.assign_rows_to_steps import own_device

_TASK = WantedColumns(
    table="TASK",
    ints=("startNs", "endNs", "deviceId", "connectionId", "contextId", "streamId", "taskId"),
    keys=("globalTaskId",),
    names=("taskType",),
    required=("startNs", "endNs", "taskType"),
)
_COMPUTE = WantedColumns(
    table="COMPUTE_TASK_INFO",
    ints=("blockNum", "mixBlockNum", "blockDim", "mixBlockDim"),
    keys=("globalTaskId",),
    names=(
        "name",
        "taskType",
        "opType",
        "inputShapes",
        "inputDataTypes",
        "inputFormats",
        "outputShapes",
        "outputDataTypes",
        "outputFormats",
        "opState",
    ),
    required=("globalTaskId", "name"),
)
_SCHEDULE = WantedColumns(
    table="COMMUNICATION_SCHEDULE_TASK_INFO",
    keys=("globalTaskId",),
    names=("name", "taskType", "opType"),
    required=("globalTaskId", "name"),
)
_MEMCPY = WantedColumns(
    table="MEMCPY_INFO", ints=("size", "memcpyOperation"), keys=("globalTaskId",), required=("globalTaskId",)
)
_PMU = WantedColumns(
    table="TASK_PMU_INFO",
    reals=("value",),
    keys=("globalTaskId",),
    names=("name",),
    required=("globalTaskId", "name"),
)
_MEMCPY_OPERATIONS = {
    0: "host to host",
    1: "host to device",
    2: "device to host",
    3: "device to device",
    4: "managed memory",
    5: "addr device to device",
    6: "host to device ex",
    7: "device to host ex",
}
_LANE = ("device_id", "stream", "task_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The rows of TASK by start: `key`, `start_ns`, `dur_ns`, `device_id`, `stream`, `task_id`, `task_type`."""

    rows: pl.DataFrame


def read_tasks(profile: Profile) -> Tasks:
    """The tasks of all devices in the capture."""
    rows = profile.spans(profile.read(_TASK), _TASK.table)
    rows = rows.select(
        pl.col("globalTaskId").alias("key"),
        "start_ns",
        "dur_ns",
        pl.col("deviceId").alias("device_id"),
        number_or_null("connectionId").alias("correlation"),
        number_or_null("contextId").alias("context"),
        number_or_null("streamId").alias("stream"),
        number_or_null("taskId").alias("task_id"),
        pl.col("taskType").alias("task_type"),
    )
    return Tasks(rows=rows.sort("start_ns", maintain_order=True))


def write_kernels(profile: Profile, host: Host, launches: Launches, tasks: Tasks, comm: pl.DataFrame) -> None:
    """Write `kernel`, `pmu`, `flow`; `comm` has the `key` of transfers and `correlation` of collectives."""
    rows = tasks.rows.join(_compute(profile), on="key", how="left", maintain_order="left")
    rows = rows.join(_schedule(profile), on="key", how="left", maintain_order="left")
    rows = rows.join(_copies(profile), on="key", how="left", maintain_order="left")
    inside = comm.select("key").drop_nulls().unique().with_columns(pl.lit(value=True).alias("transfer"))
    rows = rows.join(inside, on="key", how="left", maintain_order="left")
    collectives = comm.select("correlation").drop_nulls().unique()["correlation"].implode()
    rows = rows.with_columns(
        pl.col("transfer").fill_null(value=False),
        pl.col("correlation").is_in(collectives).fill_null(value=False).alias("of_collective"),
    )
    rows = _covered(_with_unit(rows)).with_columns(_component(), _shown_unit())
    rows = own_device(host.step, launches.of(rows)).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id")
    )
    if comm["correlation"].count() and not rows["component"].is_in(["compute", "comm", "copy"]).any():
        # Level_none has only the device's halves of marks, which are no device work.
        rows = rows.clear()
    profile.write("kernel", rows.select(_KERNEL_COLUMNS))
    launches.write_flows(profile, rows.filter(~pl.col("transfer")))
    counters = profile.read(_PMU).rename({"globalTaskId": "key"})
    # The profiler writes zero for a unit that took no part, and null compares as no.
    counters = counters.filter(pl.col("value") != 0)
    numbers = rows.select("key", "kernel_id").drop_nulls().unique("key", keep="first")
    counters = counters.join(numbers, on="key", how="inner", maintain_order="left")
    profile.write("pmu", counters.select("kernel_id", *_as_in_text()))


def _as_in_text() -> tuple[pl.Expr, pl.Expr]:
    """Name and value of a counter as in the text export, whose times are microseconds and are named so."""
    time = pl.col("name").str.ends_with("_time")
    name = pl.col("name").replace({"aic_total_time": "aicore_time", "aiv_total_time": "aiv_time"})
    return (
        pl.when(time).then(name + "(us)").otherwise(name).alias("name"),
        pl.when(time).then(pl.col("value") / 1000).otherwise("value").alias("value"),
    )


def _compute(profile: Profile) -> pl.DataFrame:
    there = profile.columns(_COMPUTE.table)
    blocks, mix = (
        ("blockNum", "mixBlockNum") if "blockNum" in there else ("blockDim", "mixBlockDim")
    )  # a `blockDim` beside `blockNum` is the shape of the block, another thing
    return (
        profile.read(_COMPUTE)
        .unique("globalTaskId", keep="first", maintain_order=True)
        .select(
            pl.col("globalTaskId").alias("key"),
            pl.col("name").alias("compute_name"),
            text_or_null("taskType").alias("compute_type"),
            text_or_null("opType").alias("type"),
            shapes("inputShapes").alias("input_shapes"),
            shapes("inputDataTypes").alias("input_dtypes"),
            shapes("inputFormats").alias("input_formats"),
            shapes("outputShapes").alias("output_shapes"),
            shapes("outputDataTypes").alias("output_dtypes"),
            shapes("outputFormats").alias("output_formats"),
            pl.when(pl.col(blocks).is_between(1, NONE_32 - 1)).then(pl.col(blocks)).alias("blocks"),
            pl.when(pl.col(mix).is_between(1, NONE_32 - 1)).then(pl.col(mix)).alias("mix_blocks"),
            text_or_null("opState").str.to_lowercase().alias("op_state"),
        )
    )


def _schedule(profile: Profile) -> pl.DataFrame:
    return (
        profile.read(_SCHEDULE)
        .unique("globalTaskId", keep="first", maintain_order=True)
        .select(
            pl.col("globalTaskId").alias("key"),
            pl.col("name").alias("schedule_name"),
            text_or_null("taskType").alias("schedule_type"),
            text_or_null("opType").alias("schedule_op"),
        )
    )


def _copies(profile: Profile) -> pl.DataFrame:
    names = profile.enum("ENUM_MEMCPY_OPERATION", _MEMCPY_OPERATIONS)
    directions = {number: COPY_DIRECTION[name] for number, name in names.items() if name in COPY_DIRECTION}
    direction = pl.col("memcpyOperation").replace_strict(directions, default=None, return_dtype=pl.String)
    return (
        profile.read(_MEMCPY)
        .unique("globalTaskId", keep="first", maintain_order=True)
        .select(
            pl.col("globalTaskId").alias("key"),
            pl.when(pl.col("size") >= 0).then(pl.col("size")).alias("bytes"),
            direction.alias("direction"),
            pl.lit(value=True).alias("copy"),
        )
    )


def _with_unit(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `name`, `type`, `unit` and `task_type` from the most exact table."""
    kind = pl.coalesce("compute_type", "schedule_type", "task_type")
    unit = kind.replace_strict(UNIT_OF_TASK, default="other", return_dtype=pl.String)
    # Level0 has no operator type: a cube task below another task is the inner task of a mixed kernel.
    inner = pl.col("compute_name").is_not_null() & pl.col("compute_type").is_null() & pl.col("context").is_not_null()
    return rows.with_columns(
        pl.coalesce("compute_name", "schedule_name", "task_type").alias("name"),
        pl.coalesce("type", "schedule_op").alias("type"),
        pl.when(inner & (unit == "cube")).then(pl.lit("mix")).otherwise(unit).alias("unit"),
        kind.alias("task_type"),
    )


def _covered(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `cover`: `comm` or `compute` for a task that covers other tasks with rows of their own."""
    rows = rows.with_row_index("place")
    plain = pl.col("compute_name").is_null() & pl.col("schedule_name").is_null() & ~pl.col("transfer")
    over = rows.filter(plain & pl.col("context").is_null() & pl.col("unit").is_in(list(COMPUTE_UNITS)))
    under = rows.filter(~plain & pl.col("context").is_not_null()).select("start_ns", *_LANE, "transfer")
    over = over.select("place", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("until"), *_LANE)
    # Task numbers repeat after 65536 tasks: the last task of the number that started before is the right one.
    found = under.join_asof(over, on="start_ns", by=list(_LANE), strategy="backward", check_sortedness=False)
    found = found.filter(pl.col("start_ns") < pl.col("until"))
    covers = found.group_by("place").agg(pl.col("transfer").any().alias("over_transfer"))
    cover = pl.when(pl.col("over_transfer")).then(pl.lit("comm")).when(~pl.col("over_transfer")).then(pl.lit("compute"))
    joined = rows.join(covers, on="place", how="left", maintain_order="left")
    return joined.with_columns(cover.alias("cover")).drop("place", "over_transfer")


def _component() -> pl.Expr:
    unit = pl.col("unit")
    carries = pl.col("compute_name").str.contains(f"(?i){COMM_KERNEL.pattern}")
    return (
        pl.when((unit == "wait") & pl.col("compute_name").is_null() & ~pl.col("transfer"))
        .then(pl.lit("wait"))
        .when(pl.col("transfer") | pl.col("schedule_name").is_not_null() | carries.fill_null(value=False))
        .then(pl.lit("comm"))
        .when(pl.col("compute_name").is_not_null())
        .then(pl.lit("compute"))
        .when((pl.col("cover") == "comm") | (pl.col("of_collective") & ~unit.is_in(["event", "other"])))
        .then(pl.lit("comm"))
        .when(pl.col("cover") == "compute")
        .then(pl.lit("other"))
        .when(pl.col("copy").fill_null(value=False))
        .then(pl.lit("copy"))
        .otherwise(unit.replace_strict(COMPONENT_OF_UNIT, default="other", return_dtype=pl.String))
        .alias("component")
    )


def _shown_unit() -> pl.Expr:
    """The shown unit: a task over transfers is communication; a task over a kernel runs nothing itself."""
    return (
        pl.when(pl.col("cover") == "comm")
        .then(pl.lit("comm"))
        .when(pl.col("cover") == "compute")
        .then(pl.lit("other"))
        .otherwise(pl.col("unit"))
        .alias("unit")
    )


_KERNEL_COLUMNS = (
    "kernel_id",
    "name",
    "type",
    "component",
    "unit",
    "task_type",
    "device_id",
    "stream",
    "start_ns",
    "dur_ns",
    "step",
    "correlation",
    "launch_ns",
    "task_id",
    "input_shapes",
    "input_dtypes",
    "input_formats",
    "output_shapes",
    "output_dtypes",
    "output_formats",
    "blocks",
    "mix_blocks",
    "op_state",
    "bytes",
    "direction",
)
