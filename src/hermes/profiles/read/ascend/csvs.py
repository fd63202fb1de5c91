"""Reads Ascend's CSV files into tables, by header and not by name: files are optional, columns change by version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import polars as pl

from hermes.model.tables import TABLES
from hermes.profiles.read import csvfile, messages
from hermes.profiles.read.ascend import csv_queries
from hermes.profiles.read.ascend.capture_folders import OF_CANN
from hermes.profiles.read.csvfile import Csv, real, size, whole
from hermes.profiles.read.query import fetched, ns_sql
from hermes.profiles.read.table_sink import Sink

_MB = 1024 * 1024


def read_csvs(paths: tuple[Path, ...], sink: Sink, *, mindspore: bool) -> dict[str, pl.DataFrame]:
    """Write memory, allocation, statistic, step_reported and input_queue.

    Returns the rows that belong to tables of other files: `counter`, `step`, `host_op`, and `l2_cache` with `stream`,
    `task_id`, `hit` and `victim`.
    """
    parts: dict[str, list[pl.DataFrame]] = {}
    with contextlib.closing(sink.connect()) as con:
        for path in paths:
            file = csvfile.load(con, path, "csv", sink)
            if file is None:
                continue
            known = next(((table, query) for headers, table, query in _KNOWN if file.has(*headers)), None)
            if known is None and OF_CANN.match(path.name):
                known = ("statistic", csv_queries.any_numbers)
            if known:
                table, query = known
                rows = fetched(con, query(file, mindspore))
                parts.setdefault(table, []).append(_kept(table, rows, file, sink))
            else:
                sink.note(
                    "degraded",
                    messages.unknown_columns(columns=", ".join(file.columns)[:200]),
                    where=f"{path}, line 1",
                    lost=messages.LOST_FILE,
                    hint=messages.DO_RENAMED_COLUMN,
                )
    tables = {table: pl.concat(frames, how="diagonal_relaxed") for table, frames in parts.items()}
    if "input_queue" in tables:
        tables["input_queue"] = _by_operation(tables["input_queue"])
    for table, rows in tables.items():
        if table not in _ELSEWHERE:
            # Sums come out of a hash table in any order; rows of a curve stay as they were written.
            order = [name for name in ("source", "name", "level") if name in rows.columns]
            sink.frame(table, rows.sort(order) if table == "statistic" else rows)
    return {table: rows for table, rows in tables.items() if table in _ELSEWHERE}


def _by_operation(rows: pl.DataFrame) -> pl.DataFrame:
    """Merge rows into one per operation: two files describe the same operations with different facts."""
    if "taken" in rows.columns:
        taken = pl.col("taken").str.strip_chars("[] ").str.split(",").list.eval(
            pl.element().str.strip_chars().cast(pl.Int64, strict=False).drop_nulls()
        )  # fmt: skip
        rows = rows.with_columns(taken, pl.when(taken.list.len() > 0).then(taken.list.len()).alias("samples"))
        queue = pl.int_range(pl.len()).alias("at")
        looked = rows.select(queue, "queue_size", "taken").explode("taken").drop_nulls()
        seen = looked.group_by("at").agg(
            (pl.col("taken") == 0).mean().alias("seen_empty"),
            (pl.col("taken") >= pl.col("queue_size")).mean().alias("queue_full"),
        )
        rows = rows.with_columns(queue).join(seen, on="at", how="left", maintain_order="left")
        own = [pl.col("queue_empty")] if "queue_empty" in rows.columns else []
        rows = rows.with_columns(pl.coalesce(*own, "seen_empty").alias("queue_empty"))
    facts = [pl.col(name).drop_nulls().first() for name in rows.columns if name != "op_id"]
    kept = rows.group_by("op_id", maintain_order=True).agg(facts).sort("op_id")
    return kept.select(name for name in kept.columns if name in TABLES["input_queue"].names)


def _kept(table: str, rows: pl.DataFrame, file: Csv, sink: Sink) -> pl.DataFrame:
    """The rows whose required cells could be read; a note counts the others."""
    bad = rows["bad"].sum() if "bad" in rows.columns and rows.height else 0
    if bad:
        first = int(rows.with_row_index("line", offset=2).filter(pl.col("bad"))["line"][0])
        sink.note(
            "degraded",
            messages.bad_cells(n=int(bad)),
            where=f"{file.path}, first about row {first}",
            lost=messages.lost_these_rows(table=table),
        )
    return rows.filter(~pl.col("bad")).drop("bad") if "bad" in rows.columns else rows


def _memory_record(file: Csv, mindspore: bool) -> str:
    def column(what: str) -> str:
        if file.has(f"{what}(KB)"):
            return size(file.pick(f"{what}(KB)"), 1024)
        # MindSpore turns KB into MB by 1000, torch_npu by 1024.
        return size(file.pick(f"{what}(MB)"), 1000 * 1024 if mindspore else _MB)

    return f"""
        SELECT coalesce({file.pick("Component")}, 'unknown') AS component,
            {ns_sql(file.pick("Timestamp(us)"))} AS ts_ns,
               {column("Total Allocated")} AS allocated_bytes, {column("Total Reserved")} AS reserved_bytes,
               {column("Total Active")} AS active_bytes, {_device(file)} AS device_id,
                   ts_ns IS NULL AS bad FROM {file.relation}"""


def _module_memory(file: Csv, mindspore: bool) -> str:
    column = "Total Reserved(KB)" if file.has("Total Reserved(KB)") else "Total Reserved(MB)"
    return f"""
        SELECT {file.pick("Component")} AS component, {ns_sql(file.pick("Timestamp(us)"))} AS ts_ns,
               {size(file.pick(column), 1024 if "KB" in column else _MB)} AS reserved_bytes,
                   {_device(file)} AS device_id,
               ts_ns IS NULL OR component IS NULL AS bad
        FROM {file.relation} WHERE coalesce(reserved_bytes, 0) >= 0"""


def _device(file: Csv) -> str:
    of_name = f"split_part({file.pick('Device Type', 'Device')}, ':', 2)"  # as in NPU:0
    return f"coalesce({whole(file.pick('Device_id'))}, {whole(of_name)})"


def _operator_memory(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT coalesce({file.pick("Name")}, 'unknown') AS name, {size(file.pick("Size(KB)"), 1024)} AS bytes,
               {ns_sql(file.pick("Allocation Time(us)"))} AS alloc_ns,
                   {ns_sql(file.pick("Release Time(us)"))} AS release_ns,
               {_device(file)} AS device_id, alloc_ns IS NULL OR bytes IS NULL AS bad FROM {file.relation}
        WHERE {file.pick("Allocation Time(us)")} IS NOT NULL"""


def _step_trace(file: Csv, mindspore: bool) -> str:
    def ns(name: str) -> str:
        return f"coalesce({ns_sql(file.pick(name))}, 0)"

    return f"""
        SELECT {whole(file.pick("Step"))} AS step, {ns_sql(file.pick("Computing"))} AS compute_ns,
               {ns("Communication(Not Overlapped)")} AS exposed_comm_ns, {ns("Overlapped")} AS overlapped_ns,
               {ns("Communication")} AS comm_ns, {ns_sql(file.pick("Free"))} AS free_ns, {ns("Stage")} AS stage_ns,
               {ns("Bubble")} AS bubble_ns, {ns_sql(file.pick("Preparing"))} AS preparing_ns,
               compute_ns IS NULL OR free_ns IS NULL AS bad FROM {file.relation}"""


def _api_statistic(file: Csv, mindspore: bool) -> str:
    return _summary(file, "api", "API Name", "Level", "Time(us)")


def _op_statistic(file: Csv, mindspore: bool) -> str:
    source = "op" if file.has("Core Type") else "communication"
    return _summary(file, source, "OP Type", "Core Type", "Total Time(us)")


def _summary(file: Csv, source: str, name: str, level: str, total: str) -> str:
    return f"""
        SELECT '{source}' AS source, coalesce({file.pick(name)}, 'unknown') AS name,
            {file.pick(level)} AS level,
               {whole(file.pick("Count"))} AS count, {ns_sql(file.pick(total))} AS total_ns,
               {ns_sql(file.pick("Min(us)", "Min Time(us)"))} AS min_ns, {
        ns_sql(file.pick("Max(us)", "Max Time(us)"))
    } AS max_ns,
               total_ns IS NULL AS bad FROM {file.relation}"""


def _operator_details(file: Csv, mindspore: bool) -> str:
    columns = [column for column in file.columns if column.endswith("Duration(us)") or "Duration With" in column]
    parts = [
        f"SELECT 'operator' AS source, coalesce({file.pick('Name')}, 'unknown') AS name, "
        f"'{column.split(' Duration')[0].lower()}' AS level, "
        f"count(*) AS count, sum(ns)::BIGINT AS total_ns, min(ns) AS min_ns, max(ns) AS max_ns, false AS bad "
        f"FROM (SELECT *, {ns_sql(file.pick(column))} AS ns FROM {file.relation}) GROUP BY ALL"
        for column in columns
        if "With" not in column
    ]
    nothing = (
        f"SELECT 'operator' AS source, {file.pick('Name')} AS name, count(*) AS count, name IS NULL AS bad "
        f"FROM {file.relation} GROUP BY ALL"
    )
    return " UNION ALL ".join(parts) or nothing


def _aicpu(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT 'aicpu' AS source, coalesce({file.pick("Node")}, 'unknown') AS name, count(*) AS count,
               sum({ns_sql(file.pick("Total_time(us)"))})::BIGINT AS total_ns,
                   min({ns_sql(file.pick("Total_time(us)"))}) AS min_ns,
               max({ns_sql(file.pick("Total_time(us)"))}) AS max_ns, false AS bad FROM {file.relation} GROUP BY ALL"""


def _network(file: Csv, mindspore: bool) -> str:
    series = [name for name in file.columns if name not in ("Device_id", "Timestamp(us)", "funcId")]
    source = file.path.name.split("_")[0].split(".")[0]
    parts = [
        f"SELECT '{source.upper()}' AS source, coalesce('Port ' || {file.pick('funcId')}, 'Port') "
        f"AS name, '{name}' AS series, "
        f"{ns_sql(file.pick('Timestamp(us)'))} AS ts_ns, {real(file.pick(name))} AS value, "
        f"{whole(file.pick('Device_id'))} AS device_id, "
        f"ts_ns IS NULL AS bad FROM {file.relation} WHERE {real(file.pick(name))} IS NOT NULL"
        for name in series
    ]
    return " UNION ALL ".join(parts)


def _averages(file: Csv, mindspore: bool) -> str:
    source = file.path.name.split("_")[0].split(".")[0]
    parts = [
        f"SELECT '{source}' AS source, coalesce({file.pick('Mode')}, 'unknown') AS name, "
        f"'{name.lower()}' AS level, "
        f"{real(file.pick(name))} AS value, 'as written' AS unit, false AS bad FROM {file.relation}"
        for name in ("Min", "Max", "Avg", "Average")
        if file.has(name)
    ]
    return " UNION ALL ".join(parts)


def _soc_pmu(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT 'soc_pmu' AS source, coalesce({file.pick("Op Name")}, 'unknown') AS name,
            'tlb hit rate' AS level, count(*) AS count,
               avg({real(file.pick("TLB Hit Rate"))}) AS value, 'ratio' AS unit,
                   false AS bad FROM {file.relation} GROUP BY ALL"""


def _static_memory(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT 'static_op_mem' AS source, coalesce({file.pick("Op Name")}, 'unknown') AS name,
            {file.pick("Graph ID")} AS level,
               {real(file.pick("Size(KB)"))} AS value, 'KB' AS unit, false AS bad FROM {file.relation}"""


def _dataset(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT 'dataset' AS source, coalesce({file.pick("Operation")}, 'unknown') AS name,
            {file.pick("Stage")} AS level,
               {whole(file.pick("Occurrences"))} AS count, {ns_sql(file.pick("Avg. time(us)"))} *
                   coalesce({whole(file.pick("Occurrences"))}, 1) AS total_ns,
               false AS bad FROM {file.relation}"""


def _minddata(file: Csv, mindspore: bool) -> str:
    """`minddata_pipeline_raw`: `output_queue_size` lists the samples, and `output_queue_length` is the capacity."""
    return f"""
        SELECT {whole(file.pick("op_id"))} AS op_id, coalesce({file.pick("op_type")}, 'unknown') AS op,
               {whole(file.pick("num_workers"))} AS workers, {whole(file.pick("output_queue_length"))} AS queue_size,
               {file.pick("output_queue_size")} AS taken,
               {real(file.pick("output_queue_average_size"))} AS queue_average,
                   {real(file.pick("output_queue_usage_rate"))} AS queue_usage,
               nullif({whole(file.pick("parent_id"))}, -1) AS parent_id, op_id IS NULL AS bad FROM {file.relation}"""


def _minddata_summary(file: Csv, mindspore: bool) -> str:
    """`minddata_pipeline_summary`: a line is a fact, a column an operation; -1 means none."""

    def fact(name: str, column: str) -> str:
        return f"max(CASE WHEN op_ids = '{name}' THEN {column} END)"

    def share(name: str, column: str) -> str:
        value = real(fact(name, column))
        return f"CASE WHEN {value} >= 0 THEN {value} / 100 END"

    parts = [
        f"""SELECT TRY_CAST('{name}' AS BIGINT) AS op_id, {fact("op_names", column)} AS op,
            {whole(fact("num_workers", column))} AS workers,
            CASE WHEN {real(fact("queue_average_size", column))} >= 0
                THEN {real(fact("queue_average_size", column))} END AS queue_average,
            {share("queue_utilization_pct", column)} AS queue_usage,
            {share("queue_empty_freq_pct", column)} AS queue_empty,
            {share("avg_cpu_pct", column)} AS cpu,
            nullif({whole(fact("parent_id", column))}, -1) AS parent_id, false AS bad FROM {file.relation}"""
        for name in file.columns
        if name.isdecimal()
        for column in (file.pick(name),)
    ]
    rows = " UNION ALL ".join(parts) or f"SELECT 0 AS op_id, NULL::VARCHAR AS op, false AS bad FROM {file.relation}"
    return f"SELECT * FROM ({rows}) WHERE op IS NOT NULL"


def _l2_cache(file: Csv, mindspore: bool) -> str:
    return f"""
        SELECT {whole(file.pick("Stream Id"))} AS stream, {whole(file.pick("Task Id"))} AS task_id,
               {real(file.pick("Hit Rate"))} AS hit, {real(file.pick("Victim Rate"))} AS victim, false AS bad
        FROM {file.relation}"""


_ELSEWHERE = ("counter", "l2_cache", "step", "host_op")
_Query = Callable[[Csv, bool], str]
# Kinds of files by header, the most telling first: required columns, the table of the rows, the query.
_KNOWN: tuple[tuple[tuple[str, ...], str, _Query], ...] = (
    (("Computing", "Free"), "step_reported", _step_trace),
    (("API Name", "Time(us)"), "statistic", _api_statistic),
    (("OP Type", "Total Time(us)"), "statistic", _op_statistic),
    (("Name", "Input Shapes"), "statistic", _operator_details),
    (("Allocation Time(us)", "Size(KB)"), "allocation", _operator_memory),
    (("Component", "Timestamp(us)", "Total Allocated(MB)"), "memory", _memory_record),
    (("Component", "Timestamp(us)", "Total Allocated(KB)"), "memory", _memory_record),
    (("Component", "Timestamp(us)"), "memory", _module_memory),
    (("Node", "Total_time(us)"), "statistic", _aicpu),
    (("Timestamp(us)", "Bandwidth(MB/s)"), "counter", _network),
    (("TLB Hit Rate", "Op Name"), "statistic", _soc_pmu),
    (("Hit Rate", "Victim Rate"), "l2_cache", _l2_cache),
    (("Mode",), "statistic", _averages),
    (("Op Name", "Size(KB)"), "statistic", _static_memory),
    (("Operation", "Occurrences"), "statistic", _dataset),
    (("Iteration ID", "Iteration End(us)"), "step", csv_queries.iterations),
    (("event", "timestamp(us)"), "memory", csv_queries.device_memory),
    (("Fusion Op", "Original Ops"), "statistic", csv_queries.fused),
    (("event_type", "Start_time(us)", "message"), "host_op", csv_queries.marks),
    (("Thread ID", "Time(us)", "Count"), "statistic", csv_queries.operating_system),
    (("Node Name", "Queue Size"), "statistic", csv_queries.queued),
    (("TimeStamp", "PortId"), "counter", csv_queries.sampled),
    (("Timestamp(us)", "Channel Id"), "counter", csv_queries.sampled),
    (("Timestamp(us)", "Action"), "counter", csv_queries.sampled),
    (("op_id", "op_type"), "input_queue", _minddata),
    (("op_ids",), "input_queue", _minddata_summary),
)
