"""Finds gaps and impossible values in a device's trace: tasks that were not recorded, and impossible durations."""

from __future__ import annotations

import duckdb
import polars as pl

from hermes.knowledge.blocking_calls import OF_GRAPH
from hermes.profiles.read.query import fetched

_LAUNCH = (
    "what IN ('runtime', 'driver') AND correlation IS NOT NULL "
    "AND (contains(name, 'LaunchKernel') OR contains(name, 'KernelLaunch'))"
)
_CAPTURE = "what IN ('runtime', 'driver') AND regexp_matches(name, 'Stream(Begin|End)Capture')"
_STREAM = ("device_id", "stream")


def launches_without_tasks(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """How many kernel launches have no device task, and how many launches there are; (0, 0) without any.

    A kernel launched while a graph is captured runs later, with the graph.
    """
    missing = fetched(
        con,
        "SELECT ns, tid, launches FROM ("
        "SELECT correlation, min(ts_ns) AS ns, arg_min(tid, ts_ns) AS tid, count(*) OVER () AS launches "
        f"FROM event WHERE {_LAUNCH} GROUP BY correlation) ANTI JOIN "
        "(SELECT DISTINCT correlation FROM event WHERE what IN ('kernel', 'memcpy', 'memset')) USING (correlation) "
        "ORDER BY ns",
    )
    if not missing.height:
        return 0, 0
    launches = int(missing["launches"][0])
    captures = fetched(
        con, f"SELECT tid, ts_ns AS ns, contains(name, 'Begin') AS begins FROM event WHERE {_CAPTURE} ORDER BY ns"
    )
    state = missing.join_asof(captures, on="ns", by="tid", check_sortedness=False)
    return state.filter(~pl.col("begins").fill_null(value=False)).height, launches


def with_possible_ends(rows: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """Tasks in the order of their starts, without impossible durations; how many were cut, and by how many ns in all.

    A stream works in order. A task may still run when the next one starts, but not when the next but one has ended:
    some kernels of ROCm are recorded with seconds. Such a task is taken to end where the next one begins. Tasks of one
    graph may in truth be on several streams.
    """
    end = pl.col("start_ns") + pl.col("dur_ns")
    following, second = pl.col("start_ns").shift(-1).over(_STREAM), end.shift(-2).over(_STREAM)
    wrong = pl.col("stream").is_not_null() & (end > second).fill_null(value=False)
    if "task_type" in rows.columns:
        wrong &= (pl.col("task_type") != OF_GRAPH).fill_null(value=True)
    cut = rows.with_columns(
        pl.when(wrong).then(following - pl.col("start_ns")).otherwise("dur_ns").alias("dur_ns")
    )  # fmt: skip
    lost = rows["dur_ns"] - cut["dur_ns"]
    return cut, int((lost > 0).sum()), int(lost.sum())
