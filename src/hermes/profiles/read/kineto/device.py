"""Reads the device rows of a Kineto trace: kernels, copies, sets and the waits that `cuda_sync` records."""

from __future__ import annotations

import math
import re

import duckdb
import polars as pl

from hermes.knowledge.blocking_calls import OF_GRAPH
from hermes.knowledge.collectives import Collective, collective_of_kernel, is_local, op_of_words
from hermes.profiles.read.assign_rows_to_steps import own_device
from hermes.profiles.read.chrome import sparse_sql
from hermes.profiles.read.kineto.missing_tasks import with_possible_ends
from hermes.profiles.read.kineto.operators import write_operators
from hermes.profiles.read.kineto.tensor_signatures import with_signatures
from hermes.profiles.read.kineto.unmarked_steps import LAUNCHED
from hermes.profiles.read.query import fetched, keep_frame
from hermes.profiles.read.table_sink import Sink

_GRID = re.compile(r"\[\s*[0-9]{1,10}\s*(,\s*[0-9]{1,10}\s*){2}\]")
_NUMBER = re.compile("[0-9]+")
_DIRECTION = (
    ("htod", "h2d"), ("dtoh", "d2h"), ("dtod", "d2d"), ("ptop", "p2p"), ("htoh", "h2h"), ("htoa", "h2d"),
    ("atoh", "d2h"), ("atoa", "d2d"), ("atod", "d2d"), ("dtoa", "d2d"), ("hosttodevice", "h2d"),
    ("devicetohost", "d2h"), ("devicetodevice", "d2d"), ("peertopeer", "p2p"), ("hosttohost", "h2h"),
)  # fmt: skip


def write_kernels(con: duckdb.DuckDBPyConnection, step: pl.DataFrame, sink: Sink) -> tuple[int, int]:
    """Write the table `kernel`; leaves the temporary tables `kernel_name` and `launch` for communication.

    Returns how many tasks had an impossible duration, and by how many nanoseconds they were cut in all.
    """
    _launches(con)
    write_operators(con)
    names = _names(con)
    rows = fetched(con, _query()).sort("start_ns", "stream", "dur_ns", "correlation", maintain_order=True)
    rows = with_signatures(rows, shapes="input_shapes", dtypes="input_dtypes", values="input_values")
    # There are few distinct grids, too.
    blocks = {grid: _blocks(grid) for grid in rows["grid"].drop_nulls().unique()}
    rows = rows.with_columns(
        pl.col("grid").replace_strict(blocks, default=None, return_dtype=pl.Int64).alias("blocks")
    ).drop("grid")
    rows, count, ns = with_possible_ends(rows)
    rows = own_device(step, rows).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id"))
    # The names are long and few: they join the rows last.
    rows = rows.join(names.select("name_id", "name"), on="name_id", how="left", maintain_order="left")
    sink.frame("kernel", rows.drop("name_id"))
    return count, ns


def _launches(con: duckdb.DuckDBPyConnection) -> None:
    """Keep one launch per correlation: the first, if runtime and driver both recorded it."""
    con.execute(
        "CREATE TEMP TABLE launch AS SELECT correlation, min(ts_ns) AS launch_ns, arg_min(args.grid, ts_ns) AS grid, "
        "arg_min(pid_number, ts_ns) AS by_pid, arg_min(tid_number, ts_ns) AS by_tid, "
        "bool_or(ends_with(name, 'GraphLaunch')) AS graph "
        f"FROM event WHERE what IN ('runtime', 'driver', '{LAUNCHED}') AND correlation IS NOT NULL GROUP BY correlation"
    )


def _names(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """The properties of each distinct name of a device row: a handful of names, however many rows there are."""
    amd = con.execute("SELECT 1 FROM event WHERE what = 'runtime' AND name LIKE 'hip%' LIMIT 1").fetchall()
    rows = con.execute(
        "SELECT name, bool_or(what = 'kernel'), bool_or(collective) FROM event "
        "WHERE what IN ('kernel', 'memcpy', 'memset', 'sync') GROUP BY name ORDER BY name"
    ).fetchall()
    found = [
        collective_of_kernel(name, "amd" if amd else "")
        or (Collective(op=op_of_words(name), library="unknown") if told else None)
        if kernel
        else None
        for name, kernel, told in rows
    ]
    frame = pl.DataFrame(
        {
            "name_id": range(len(rows)),
            "name": [name for name, _, _ in rows],
            "op": [kind.op if kind else None for kind in found],
            "library": [kind.library if kind else None for kind in found],
            "local": [is_local(name) for name, _, _ in rows],
        },
        schema={
            "name_id": pl.Int64,
            "name": pl.String,
            "op": pl.String,
            "library": pl.String,
            "local": pl.Boolean,
        },
    )
    keep_frame(con, "kernel_name", frame)
    return frame


def _query() -> str:
    # A collective's own call may launch local helpers too (a copy into a flat buffer): such helpers stay compute.
    collective = f"{sparse_sql('Collective name')} IS NOT NULL"
    comm = f"what = 'kernel' AND (k.library IS NOT NULL OR ({collective} AND NOT k.local))"
    directions = " ".join(f"WHEN contains(moved, '{word}') THEN '{direction}'" for word, direction in _DIRECTION)
    return f"""
        WITH device AS (
            SELECT *,
                CASE WHEN what = 'memcpy' THEN lower(replace(replace(
                    coalesce(args.kind, {sparse_sql("direction")}, '') || name, ' ', ''), '_', '')) END AS moved
            FROM event WHERE what IN ('kernel', 'memcpy', 'memset', 'sync')
        )
        SELECT name_id, CASE WHEN what = 'kernel' THEN type END AS type,
            CASE what WHEN 'sync' THEN 'wait' WHEN 'kernel' THEN CASE WHEN {comm} THEN 'comm' ELSE 'compute' END
                ELSE 'copy' END AS component,
            CASE what WHEN 'sync' THEN 'wait' WHEN 'kernel' THEN CASE WHEN {comm} THEN 'comm' ELSE 'sm' END
                ELSE 'copy' END AS unit,
            CASE WHEN launch.graph THEN '{OF_GRAPH}' ELSE coalesce(args.cuda_sync_kind, cat) END AS task_type,
            {DEVICE} AS device_id,
            {STREAM} AS stream,
            ts_ns AS start_ns, dur_ns, device.correlation, launch_ns,
            CASE WHEN what = 'kernel' THEN shapes END AS input_shapes,
            CASE WHEN what = 'kernel' THEN types END AS input_dtypes,
            CASE WHEN what = 'kernel' THEN operator.given END AS input_values,
            CASE WHEN what IN ('kernel', 'memcpy', 'memset') THEN operator.call END AS call,
            CASE WHEN what = 'kernel' THEN coalesce(args.grid, launch.grid) END AS grid,
            CASE WHEN what IN ('memcpy', 'memset') THEN
                greatest(coalesce(TRY_CAST(args.bytes AS BIGINT), TRY_CAST({sparse_sql("size")} AS BIGINT)), 0)
                END AS bytes,
            CASE what WHEN 'memset' THEN 'set' WHEN 'memcpy' THEN CASE {directions} END END AS direction
        FROM device LEFT JOIN launch USING (correlation) LEFT JOIN operator
            ON operator.correlation IS NOT DISTINCT FROM device.correlation
            AND operator.external IS NOT DISTINCT FROM device.external
            LEFT JOIN kernel_name AS k USING (name)
    """


def _stream() -> str:
    # `"stream": 7`, `"tid": 7` or `"tid": "stream 7"`; -1 is the host or a whole context.
    known = (
        "coalesce(TRY_CAST(args.stream AS BIGINT), tid_number, TRY_CAST(regexp_extract(tid, '(\\d+)$', 1) AS BIGINT))"
    )
    return f"CASE WHEN {known} >= 0 THEN {known} END"


DEVICE = "coalesce(TRY_CAST(args.device AS BIGINT), pid_number)"
"""SQL: the number of the device of a device event."""
STREAM = _stream()
"""SQL: the stream of a device event."""


def _blocks(grid: str) -> int | None:
    """The product of `[17888, 1, 1]`; None if it is not three numbers or exceeds 64 bits."""
    if not _GRID.fullmatch(grid):
        return None
    product = math.prod(map(int, _NUMBER.findall(grid)))
    return product if product < 2**63 else None
