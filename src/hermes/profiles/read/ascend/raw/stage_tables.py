"""Converts operators, collectives and counters of the databases inside `PROF_*` to tables of the exported layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import polars as pl

from hermes.knowledge.ascend_codes import NONE_32
from hermes.profiles.read.ascend.db.sqlite_database import Database, Kind

_KEY = ("device_id", "stream_id", "task_id", "batch_id", "context_id")
_OPERATOR: dict[str, Kind] = {
    **dict.fromkeys(_KEY, "int"),
    **dict.fromkeys(("op_name", "task_type", "op_type", "op_state", "input_formats", "input_data_types", "input_shapes",
                     "output_formats", "output_data_types", "output_shapes"), "text"),
    **dict.fromkeys(("block_num", "mix_block_num", "block_dim", "mix_block_dim"), "int"),
}  # fmt: skip
_OF_COMMUNICATION = ("COMMUNICATION", "HCCL", "HCCL_AI_CPU")
_NO_OPERATOR = ("WRITE_BACK", "INVALID")
_TRANSFER: dict[str, Kind] = {
    **dict.fromkeys(("stream_id", "task_id", "batch_id", "context_id", "plane_id", "local_rank", "remote_rank", "size",
                     "is_master"), "int"),
    **dict.fromkeys(("op_name", "hccl_name", "group_name", "transport_type", "link_type"), "text"),
}  # fmt: skip
_COLLECTIVE: dict[str, Kind] = {
    "connection_id": "int", "count": "int", "op_name": "text", "op_type": "text", "data_type": "text",
    "alg_type": "text", "group_name": "text",
}  # fmt: skip
_NOT_COUNTED = frozenset(
    {"task_id", "stream_id", "subtask_id", "batch_id", "task_type", "start_time", "end_time", "ffts_type", "core_type"}
)
# How the export converts a column of counters: the ending it removes, the ending it adds, and the factor.
_SCALES = (("_extra", "", 1), ("(ms)", "", 10**6), ("(GB/s)", "", 1 << 30), ("_time", "_time", 10**3))


class Tables(Protocol):
    """Takes tables of the exported layout."""

    def add(self, table: str, rows: pl.DataFrame, names: Iterable[str] = ()) -> None:
        """Take the rows of a table; texts of the columns `names` become ids."""

    def enumerate(self, table: str, *columns: pl.Series) -> list[pl.Series]:
        """Convert texts to the numbers of an enumeration of that name."""


def times(database: Database, table: str, *columns: str) -> pl.DataFrame:
    """Columns of times in whole nanoseconds, whether stored as integers, with fractions or as text."""
    whole = database.fetch(table, dict.fromkeys(columns, "int"))
    real = database.fetch(table, dict.fromkeys(columns, "real"))
    return pl.DataFrame(
        [whole[name].fill_null(real[name].round().cast(pl.Int64, strict=False)).alias(name) for name in columns]
    )


def computes(into: Tables, tasks: pl.DataFrame, database: Database) -> None:
    """Add COMPUTE_TASK_INFO: the operators of the tasks."""
    other = pl.col("task_type").is_in([*_OF_COMMUNICATION, *_NO_OPERATOR]).fill_null(value=False)
    rows = _operators(tasks, database).filter(~other)
    there = database.columns("TaskInfo")
    blocks, mix = ("block_num", "mix_block_num") if "block_num" in there else ("block_dim", "mix_block_dim")
    texts = {
        "name": "op_name", "taskType": "task_type", "opType": "op_type", "inputShapes": "input_shapes",
        "inputDataTypes": "input_data_types", "inputFormats": "input_formats", "outputShapes": "output_shapes",
        "outputDataTypes": "output_data_types", "outputFormats": "output_formats", "opState": "op_state",
    }  # fmt: skip
    into.add(
        "COMPUTE_TASK_INFO",
        rows.select("globalTaskId", pl.col(blocks).alias("blockNum"), pl.col(mix).alias("mixBlockNum"),
                    *(pl.col(own).alias(name) for name, own in texts.items())),
        list(texts),
    )  # fmt: skip


def schedules(into: Tables, tasks: pl.DataFrame, database: Database) -> None:
    """Add COMMUNICATION_SCHEDULE_TASK_INFO: the kernels that drive collectives."""
    rows = _operators(tasks, database).filter(pl.col("task_type").is_in(_OF_COMMUNICATION))
    texts = {"name": "op_name", "taskType": "task_type", "opType": "op_type"}
    picked = rows.select("globalTaskId", *(pl.col(own).alias(name) for name, own in texts.items()))
    into.add("COMMUNICATION_SCHEDULE_TASK_INFO", picked, list(texts))


def _operators(tasks: pl.DataFrame, database: Database) -> pl.DataFrame:
    rows = database.fetch("TaskInfo", _OPERATOR).with_columns(pl.col("context_id").fill_null(NONE_32))
    rows = rows.drop_nulls("op_name").unique(list(_KEY), keep="last", maintain_order=True)
    return tasks.select("globalTaskId", *_KEY).join(rows, on=list(_KEY), how="inner", maintain_order="left")


def counters(into: Tables, tasks: pl.DataFrame, devices: Mapping[int, Mapping[str, Database]]) -> None:
    """Add TASK_PMU_INFO: the hardware counters of the tasks."""
    parts = []
    for number, own in devices.items():
        database = own.get("metric_summary")
        names = sorted(database.columns("MetricSummary") - _NOT_COUNTED) if database else []
        if not (database and names):
            continue
        kinds: dict[str, Kind] = dict.fromkeys(("stream_id", "task_id", "batch_id", "subtask_id"), "int")
        rows = database.fetch("MetricSummary", {**kinds, **dict.fromkeys(names, "real")})
        scaled = {name: _scaled(name) for name in names}
        rows = rows.select(
            pl.lit(number, pl.Int64).alias("device_id"), "stream_id", "task_id", "batch_id",
            pl.col("subtask_id").fill_null(NONE_32).alias("context_id"),
            *((pl.col(name) * factor).alias(shown) for name, (shown, factor) in scaled.items()),
        )  # fmt: skip
        shown = [shown for shown, _ in scaled.values()]
        parts.append(
            rows.unpivot(shown, index=list(_KEY), variable_name="name", value_name="value").drop_nulls("value")
        )
    if parts:
        keys = tasks.select("globalTaskId", *_KEY).unique(list(_KEY), keep="last", maintain_order=True)
        rows = pl.concat(parts).join(keys, on=list(_KEY), how="inner", maintain_order="left")
        into.add("TASK_PMU_INFO", rows.select("globalTaskId", "name", "value"), ["name"])


def _scaled(name: str) -> tuple[str, int]:
    for ending, kept, factor in _SCALES:
        if name.endswith(ending):
            return name.removesuffix(ending) + kept, factor
    return name, 1


def collectives(
    into: Tables,
    tasks: pl.DataFrame,
    devices: Mapping[int, Mapping[str, Database]],
    names: Mapping[str, str],
    ahead_ns: int,
) -> None:
    """Add COMMUNICATION_OP and COMMUNICATION_TASK_INFO; `names` are the names of groups that are stored as numbers."""
    pairs = [
        _collectives(own["hccl_single_device"], number, names, ahead_ns)
        for number, own in devices.items()
        if "hccl_single_device" in own
    ]
    if not pairs:
        return
    ops = pl.concat([ops for ops, _ in pairs]).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("opId"))
    parts = pl.concat([parts for _, parts in pairs])
    keys = tasks.select("globalTaskId", *_KEY).unique(list(_KEY), keep="last", maintain_order=True)
    parts = parts.join(keys, on=list(_KEY), how="inner", maintain_order="left").sort("startNs")
    begun = ops.select("opId", "device_id", "group_name", "startNs", "endNs").sort("startNs")
    owned = parts.join_asof(
        begun.rename({"endNs": "until"}), on="startNs", by=["device_id", "group_name"], check_sortedness=False
    )
    inside = pl.col("startNs") <= pl.col("until")
    owned = owned.with_columns(pl.when(inside).then("opId").alias("opId"))
    dtypes = into.enumerate("ENUM_HCCL_DATA_TYPE", ops["data_type"])[0]
    into.add(
        "COMMUNICATION_OP",
        ops.select("opId", "startNs", "endNs", pl.col("connection_id").alias("connectionId"), "count",
                   dtypes.alias("dataType"), pl.col("op_name").alias("opName"), pl.col("group_name").alias("groupName"),
                   pl.col("alg_type").alias("algType"), pl.col("op_type").alias("opType")),
        ["opName", "groupName", "algType", "opType"],
    )  # fmt: skip
    transports = into.enumerate("ENUM_HCCL_TRANSPORT_TYPE", owned["transport_type"])[0]
    links = into.enumerate("ENUM_HCCL_LINK_TYPE", owned["link_type"])[0]
    into.add(
        "COMMUNICATION_TASK_INFO",
        owned.select("globalTaskId", "opId", pl.col("plane_id").alias("planeId"), pl.col("local_rank").alias("srcRank"),
                     pl.col("remote_rank").alias("dstRank"), "size", pl.col("hccl_name").alias("taskType"),
                     pl.col("group_name").alias("groupName"), transports.alias("transportType"),
                     links.alias("linkType")),
        ["taskType", "groupName"],
    )  # fmt: skip


def _collectives(
    database: Database, device: int, names: Mapping[str, str], ahead_ns: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The collectives of one device and their tasks, with Unix times."""
    group = pl.col("group_name").replace(dict(names)).alias("group_name")
    parts = database.fetch("HCCLTaskSingleDevice", _TRANSFER)
    parts = parts.hstack(times(database, "HCCLTaskSingleDevice", "timestamp", "duration"))
    parts = parts.drop_nulls(["timestamp", "duration"]).with_columns(
        group, pl.lit(device, pl.Int64).alias("device_id"), pl.col("context_id").fill_null(NONE_32),
        (pl.col("timestamp") + ahead_ns).alias("startNs"),
        (pl.col("timestamp") + pl.col("duration") + ahead_ns).alias("endNs"),
    )  # fmt: skip
    ops = database.fetch("HCCLOpSingleDevice", _COLLECTIVE).with_columns(group)
    if {"start", "end"} <= database.columns("HCCLOpSingleDevice"):
        at = times(database, "HCCLOpSingleDevice", "start", "end")
        ops = ops.with_columns((at["start"] + ahead_ns).alias("startNs"), (at["end"] + ahead_ns).alias("endNs"))
    else:
        # The collective's tasks on the main plane tell when it ran.
        main = parts.filter(pl.col("is_master") == 1).group_by("op_name", "group_name", maintain_order=True)
        ran = main.agg(pl.col("startNs").min(), pl.col("endNs").max())
        ops = ops.join(ran, on=["op_name", "group_name"], how="inner", maintain_order="left")
    ops = ops.drop_nulls(["startNs", "endNs", "op_name"]).with_columns(pl.lit(device, pl.Int64).alias("device_id"))
    return ops, parts.drop("op_name", "timestamp", "duration", "endNs")
