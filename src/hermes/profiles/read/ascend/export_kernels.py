"""Reads device tasks of an Ascend text export: `kernel_details.csv` knows operators, `trace_view.json` every task.

Traps: at Level0, type and core are N/A. trace_view calls vector kernels AI_CORE. Accelerator Core HCCL was renamed
COMMUNICATION. Communication rows are truncated where the trace rounds. Durations lose part of a nanosecond that only
the Overlap Analysis lane keeps. MindSpore spells `Step Id` as `Step ID`. Block Dim became Block Num.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from hermes.knowledge.ascend_codes import (
    COLLECTIVE_TYPES,
    COMM_KERNEL,
    COMPONENT_OF_UNIT,
    COPY_DIRECTION,
    NONE_32,
    NOTIFY_WAITS,
    UNIT_OF_TASK,
)
from hermes.profiles.read import csvfile, messages
from hermes.profiles.read.assign_rows_to_steps import own_device
from hermes.profiles.read.csvfile import Csv, whole
from hermes.profiles.read.query import fetched, keep_frame, literal, ns_sql, only_row
from hermes.profiles.read.table_sink import Sink

# Counters of the cube (aic) and vector (aiv) cores; older chips write them without the prefix.
_PMU = re.compile(
    r"^(aic|aiv|aicore|cube|ai_core|mac|vec|scalar|mte\d|fixpipe|icache|l2|ub|l0|l1)[ a-z0-9_]*"
    r"(_|\(|ratio|time|cycles|rate|bw|utilization|fops|hit|allocate).*$",
    re.IGNORECASE,
)
# Start columns of kernel_details, op_summary and task_time.
_STARTS = ("Start Time(us)", "Task Start Time(us)", "task_start(us)")
_SAME_CLOCK_NS = _DAY_NS = 10**9 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The rows of kernel_details as a Parquet file, and the names of its counter columns."""

    rows: Path
    counters: list[str]


def read_details(paths: tuple[Path, ...], sink: Sink) -> Details:
    """Read the files of kernels; the trace is not needed for them."""
    out = sink.scratch / "detail.parquet"
    with contextlib.closing(sink.connect()) as con:
        files = [csvfile.load(con, path, f"detail_{n}", sink) for n, path in enumerate(paths)]
        good: list[Csv] = []
        for file in files:
            if file and not any(file.has(name) for name in _STARTS):
                sink.note(
                    "degraded",
                    messages.no_column(columns=["Start Time(us)"]),
                    where=f"{file.path}, line 1",
                    lost=messages.LOST_KERNEL_DETAILS,
                    hint=messages.DO_RENAMED_COLUMN,
                )
            elif file:
                good.append(file)
                _note_nameless(file, sink)
        offset, selects = 0, []
        for file in good:
            selects.append(_detail_select(file, offset))
            offset += file.rows
        con.execute(f"CREATE TEMP TABLE detail AS {' UNION ALL BY NAME '.join(selects) or _NO_DETAIL}")
        (middle,) = only_row(con, "SELECT quantile_disc(start_ns, 0.5) FROM detail WHERE NOT bad")
        if middle is not None:
            # No capture lasts a day: such a row is damaged, and would stretch its step.
            con.execute(
                f"UPDATE detail SET bad = true WHERE start_ns NOT BETWEEN {middle - _DAY_NS} AND "
                f"{middle + _DAY_NS} OR dur_ns > {_DAY_NS}"
            )
        row = only_row(con, "SELECT count(*) FILTER (bad), min(detail_row) FILTER (bad) FROM detail")
        if row[0]:
            sink.note(
                "degraded",
                messages.kernels_unreadable(n=row[0]),
                where=f"{good[0].path}, first about row {row[1] + 2}",
                lost=messages.LOST_KERNELS,
            )
        con.execute(f"COPY (SELECT * FROM detail WHERE NOT bad) TO {literal(out)} (FORMAT parquet)")
    return Details(rows=out, counters=sorted({column for file in good for column in _pmu_columns(file)}))


def read_kernels(
    con: duckdb.DuckDBPyConnection,
    details: Details,
    step: pl.DataFrame,
    caches: pl.DataFrame | None,
    sink: Sink,
    *,
    traced: bool,
) -> None:
    """Write `kernel` and `pmu`; leaves the table `detail` (rows of kernel_details) for the communication reader.

    `caches` are the rows of l2_cache.csv. `traced` says that the views of `ascend_trace` exist on `con`.
    """
    con.execute(f"CREATE TEMP TABLE detail AS FROM read_parquet({literal(details.rows)})")
    if not traced:
        _no_trace(con)
    _to_trace_clock(con, sink)
    con.execute(_JOINED)
    rows = fetched(con, "SELECT * FROM device_task ORDER BY start_ns, stream, name, task_id, dur_ns, correlation")
    rows = _classified(own_device(step, rows).with_columns(pl.coalesce("detail_step", "step").alias("step")))
    rows = rows.with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id"),
        # MindSpore names a task after its place in the model: `Gradients/…/conv5-Conv2d/BiasAddGrad-op155`.
        pl.coalesce("type", pl.col("name").str.extract(_OPERATOR_OF_SCOPE)).alias("type"),
    )
    numbered = rows.select("kernel_id", "detail_row", "stream", "task_id")
    sink.frame("kernel", rows.drop("detail_row", "detail_step", "is_detail", "detail_core"))
    _pmu(con, numbered, details.counters, caches, sink)


def _note_nameless(file: Csv, sink: Sink) -> None:
    """Note missing columns: every writer has columns for types and cores, though Level0 leaves the cells empty."""
    absent = [
        pair[0]
        for pair in (("Type", "OP Type"), ("Accelerator Core", "Task Type"))
        if not any(file.has(name) for name in (*pair, "kernel_type"))
    ]
    if absent:
        sink.note(
            "degraded",
            messages.no_column(columns=absent),
            where=f"{file.path}, line 1",
            lost=messages.LOST_KERNEL_COLUMNS,
            hint=messages.DO_RENAMED_COLUMN,
        )


_NO_DETAIL = (
    "SELECT NULL::BIGINT AS detail_row, NULL::BIGINT AS detail_step, NULL::BIGINT AS device_id, "
    "NULL::BIGINT AS task_id, "
    "NULL::BIGINT AS stream, NULL::VARCHAR AS name, NULL::VARCHAR AS type, NULL::VARCHAR AS op_state, "
    "NULL::VARCHAR AS core, "
    "NULL::BIGINT AS start_ns, NULL::BIGINT AS dur_ns, NULL::BIGINT AS blocks, NULL::BIGINT AS "
    "mix_blocks, NULL::VARCHAR AS input_shapes, "
    "NULL::VARCHAR AS input_dtypes, NULL::VARCHAR AS input_formats, NULL::VARCHAR AS output_shapes, "
    "NULL::VARCHAR AS output_dtypes, "
    "NULL::VARCHAR AS output_formats, false AS bad WHERE false"
)


def _detail_select(file: Csv, offset: int) -> str:
    pmu = "".join(f', {csvfile.real(file.pick(name))} AS "{name}"' for name in _pmu_columns(file))
    text = {
        "input_shapes": "Input Shapes",
        "input_dtypes": "Input Data Types",
        "input_formats": "Input Formats",
        "output_shapes": "Output Shapes",
        "output_dtypes": "Output Data Types",
        "output_formats": "Output Formats",
    }
    texts = ", ".join(f"{file.pick(name)} AS {alias}" for alias, name in text.items())
    return f"""
        SELECT row_number() OVER () - 1 + {offset} AS detail_row, {
        whole(file.pick("Step Id", "Step ID"))
    } AS detail_step,
               {whole(file.pick("Device_id"))} AS device_id, {whole(file.pick("Task ID", "task_id"))} AS task_id,
               {whole(file.pick("Stream ID", "stream_id"))} AS stream, {
        file.pick("Name", "Op Name", "kernel_name")
    } AS name,
               {file.pick("Type", "OP Type")} AS type, {file.pick("OP State")} AS op_state,
               {file.pick("Accelerator Core", "Task Type", "kernel_type")} AS core,
               {ns_sql(file.pick(*_STARTS))} AS start_ns,
               {ns_sql(file.pick("Duration(us)", "Task Duration(us)", "task_time(us)"))} AS dur_ns,
               nullif({whole(file.pick("Block Dim", "Block Num"))}, 0) AS blocks,
               nullif({whole(file.pick("Mix Block Dim", "Mix Block Num"))}, 0) AS mix_blocks, {texts}{pmu},
               name IS NULL OR start_ns IS NULL OR dur_ns IS NULL OR dur_ns < 0 AS bad
        FROM {file.relation}"""


def _pmu_columns(file: Csv) -> list[str]:
    return [name for name in file.columns if _PMU.match(name)]


def _no_trace(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("""
        CREATE TEMP TABLE task (name VARCHAR, task_type VARCHAR, device_id BIGINT, stream BIGINT, start_ns BIGINT,
            dur_ns BIGINT,
                                task_id BIGINT, correlation BIGINT, launch_ns BIGINT, bytes BIGINT, direction VARCHAR);
        CREATE TEMP TABLE exact (lane VARCHAR, ts_ns BIGINT, dur_ns BIGINT);
        CREATE TEMP TABLE call (correlation BIGINT, call_ns BIGINT);
        CREATE TEMP TABLE sibling (correlation BIGINT, sibling_ns BIGINT);
    """)


def _to_trace_clock(con: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    """Bring the CSV to the trace's clock: newer traces count time from their start, while the CSV keeps Unix time."""
    row = only_row(
        con,
        """
        SELECT median(d.start_ns - t.start_ns)::BIGINT FROM
          (SELECT name, start_ns, row_number() OVER (PARTITION BY name ORDER BY start_ns) AS n FROM detail) d
          JOIN (SELECT name, start_ns, row_number() OVER (PARTITION BY name ORDER BY start_ns) AS n
              FROM task) t USING (name, n)
    """,
    )
    if row[0] is not None and abs(row[0]) > _SAME_CLOCK_NS:
        con.execute(f"UPDATE detail SET start_ns = start_ns - ({int(row[0])})")
        sink.note("info", messages.OWN_CLOCK)


# Compute rows of both files agree on (name, start). A kernel that only one file has is kept from that file.
_JOINED = """
    CREATE TEMP TABLE device_task AS
    WITH d AS (SELECT *, row_number() OVER (PARTITION BY name, start_ns ORDER BY detail_row) AS n FROM detail
               WHERE coalesce(core, '') NOT IN ('HCCL', 'COMMUNICATION') AND name NOT LIKE 'hcom_%'),
         t AS (SELECT task.*, row_number() OVER (PARTITION BY name, start_ns ORDER BY stream, task_id, dur_ns,
             correlation) AS n FROM task)
    SELECT coalesce(d.name, t.name) AS name, d.type, coalesce(t.task_type, d.core) AS task_type, d.core AS detail_core,
           d.detail_row IS NOT NULL AS is_detail, d.detail_row, d.detail_step,
           coalesce(d.device_id, t.device_id) AS device_id, coalesce(t.stream, d.stream) AS stream,
           coalesce(t.start_ns, d.start_ns) AS start_ns,
           CASE WHEN abs(x.dur_ns - coalesce(t.dur_ns, d.dur_ns)) <= 1 THEN x.dur_ns ELSE coalesce(t.dur_ns,
               d.dur_ns) END AS dur_ns,
           coalesce(t.task_id, d.task_id) AS task_id, t.correlation, coalesce(t.launch_ns, sibling_ns,
               call_ns) AS launch_ns,
           t.bytes, t.direction, d.op_state, d.blocks, d.mix_blocks, d.input_shapes, d.input_dtypes, d.input_formats,
           d.output_shapes, d.output_dtypes, d.output_formats
    FROM t FULL JOIN d ON d.name = t.name AND d.start_ns = t.start_ns AND d.n = t.n
    LEFT JOIN (SELECT ts_ns, max(dur_ns) AS dur_ns FROM exact WHERE lane = 'Computing' GROUP BY 1) x
        ON x.ts_ns = coalesce(t.start_ns, d.start_ns)
    LEFT JOIN call ON call.correlation = t.correlation LEFT JOIN sibling ON sibling.correlation = t.correlation
"""


_OPERATOR_OF_SCOPE = r"/([^/]+)-op\d+$"


def _classified(rows: pl.DataFrame) -> pl.DataFrame:
    """Add unit and component.

    Rows of kernel_details are compute, unless their kernels carry out a collective; other tasks are compute unless
    known to be otherwise.
    """
    by_detail = pl.col("detail_core").replace_strict(UNIT_OF_TASK, default=None, return_dtype=pl.String)
    by_task = pl.col("task_type").replace_strict(UNIT_OF_TASK, default="other", return_dtype=pl.String)
    by_name = pl.col("name").replace_strict(UNIT_OF_TASK, default=None, return_dtype=pl.String)
    # Only kernel_details tells cube from vector: the trace calls both AI_CORE.
    blurred = pl.col("task_type").is_in(["AI_CORE", "Other"]) & by_detail.is_null()
    # EVENT_RECORD may appear as PLACE_HOLDER_SQE, MEMCPY_ASYNC as PCIE_DMA_SQE: the plainer word decides for
    # non-kernels.
    unit = pl.coalesce(by_detail, pl.when(pl.col("is_detail")).then(by_task).otherwise(pl.coalesce(by_name, by_task)))
    # kernel_details has only kernels; task_time has copies, waits and events too.
    kernel = pl.col("is_detail") & ~by_detail.is_in(["copy", "wait", "event", "comm"]).fill_null(value=False)
    collective = pl.col("name").str.contains(f"(?i){COMM_KERNEL.pattern}") | pl.any_horizontal(
        pl.col("type", "task_type").is_in(COLLECTIVE_TYPES)
    ).fill_null(value=False)
    component = (
        pl.when(collective)
        .then(pl.lit("comm"))
        .when(kernel | (blurred & by_name.is_null()))
        .then(pl.lit("compute"))
        .when(pl.col("task_type").is_in(NOTIFY_WAITS) | pl.col("name").is_in(NOTIFY_WAITS))
        .then(pl.lit("comm"))
        .otherwise(unit.replace_strict(COMPONENT_OF_UNIT, default="other", return_dtype=pl.String))
    )
    return rows.with_columns(
        component.alias("component"),
        pl.when(blurred & by_name.is_null()).then(None).otherwise(unit).alias("unit"),
        pl.col("direction").replace_strict(COPY_DIRECTION, default=None, return_dtype=pl.String).alias("direction"),
        pl.when(pl.col("task_id") == NONE_32).then(None).otherwise(pl.col("task_id")).alias("task_id"),
    )


def _pmu(
    con: duckdb.DuckDBPyConnection,
    numbered: pl.DataFrame,
    columns: list[str],
    caches: pl.DataFrame | None,
    sink: Sink,
) -> None:
    keep_frame(con, "numbered", numbered)
    parts = []
    if columns:
        listed = ", ".join(f'"{name}"' for name in columns)
        # The profiler writes zero for a unit that took no part: it says nothing about the kernel.
        parts.append(
            f"SELECT kernel_id, name, value FROM (UNPIVOT (SELECT kernel_id, {listed} FROM detail JOIN "
            f"numbered USING (detail_row)) "
            f"ON {listed} INTO NAME name VALUE value) WHERE value <> 0"
        )
    if caches is not None:
        keep_frame(con, "l2_cache", caches)
        parts.extend(
            f"SELECT kernel_id, 'l2_{name}_rate' AS name, {name} AS value FROM l2_cache JOIN numbered "
            f"USING (stream, task_id) WHERE {name} IS NOT NULL"
            for name in ("hit", "victim")
        )
    if parts:
        sink.sql(con, "pmu", " UNION ALL ".join(parts) + " ORDER BY kernel_id, name")
