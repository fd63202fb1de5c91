"""What a trace of a device lacks or cannot be right about: tasks that were not recorded, and impossible durations."""

from __future__ import annotations

import duckdb
import polars as pl

from hermes.knowledge.blocking import OF_GRAPH
from hermes.profiles.read.query import fetched, one

_LAUNCH = (
    "what IN ('runtime', 'driver') AND correlation IS NOT NULL AND regexp_matches(name, 'LaunchKernel|KernelLaunch')"
)
_CAPTURE = "what IN ('runtime', 'driver') AND regexp_matches(name, 'Stream(Begin|End)Capture')"
_STREAM = ("device_id", "stream")


def launches_without_tasks(con: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """How many launches of kernels have no task of the device, and how many there are.

    What is launched while a graph is captured runs later, with the graph.
    """
    (launches,) = one(con, f"SELECT count(DISTINCT correlation) FROM event WHERE {_LAUNCH}")
    if not launches:
        return 0, 0
    missing = fetched(
        con,
        "SELECT correlation, min(ts_ns) AS ns, arg_min(tid, ts_ns) AS tid FROM event ANTI JOIN "
        "(SELECT DISTINCT correlation FROM event WHERE what IN ('kernel', 'memcpy', 'memset')) USING (correlation) "
        f"WHERE {_LAUNCH} GROUP BY correlation ORDER BY ns",
    )
    if not missing.height:
        return 0, launches
    captures = fetched(
        con, f"SELECT tid, ts_ns AS ns, contains(name, 'Begin') AS begins FROM event WHERE {_CAPTURE} ORDER BY ns"
    )
    state = missing.join_asof(captures, on="ns", by="tid", check_sortedness=False)
    return state.filter(~pl.col("begins").fill_null(value=False)).height, launches


def with_possible_ends(rows: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """Tasks in the order of their starts, without impossible durations; how many were cut, and by how much in all.

    A stream works in order. A task may still run when the next one is launched into its end, but not when the next but
    one has ended: some kernels of ROCm are recorded with seconds. Such a task is taken to end where the next one
    begins. Tasks of one graph may be of several streams in truth.
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
