"""Reads the host rows of a Kineto trace: steps, operators, Python frames, runtime and driver calls, collections."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl

from hermes.knowledge.blocking_calls import BLOCKS, TO_PAGEABLE
from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.kineto.tensor_signatures import with_signatures
from hermes.profiles.read.kineto.unmarked_steps import found_steps
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.query import fetched
from hermes.profiles.read.table_sink import Sink

_STEP_NAME = "^ProfilerStep#(\\d+)$"
IS_STEP = f"starts_with(name, 'ProfilerStep#') AND regexp_matches(name, '{_STEP_NAME}')"
"""SQL: whether an event is named like a step. A check of the prefix avoids nearly all regular expressions."""
# Each round doubles the chain: this many rounds cover 2^64 frames, and end a chain that closes on itself.
_LONGEST_CHAIN = 64
_TEXTS = ("name", "shapes", "dtypes", "strides")


def write_steps(con: duckdb.DuckDBPyConnection, sink: Sink) -> pl.DataFrame:
    """Write and return the table `step`: the longest mark of each number; inferred steps if none is marked."""
    step = fetched(
        con,
        "SELECT step, arg_max(ts_ns, dur_ns) AS start_ns, max(dur_ns) AS dur_ns, arg_max(name, dur_ns) AS name FROM ("
        f"SELECT TRY_CAST(regexp_extract(name, '{_STEP_NAME}', 1) AS BIGINT) AS step, ts_ns, dur_ns, name FROM event "
        "WHERE what = 'step') WHERE step IS NOT NULL GROUP BY step ORDER BY start_ns",
    )
    step = step if step.height else found_steps(con)
    sink.frame("step", step)
    return step


def host_rows(con: duckdb.DuckDBPyConnection, step: pl.DataFrame, sink: Sink) -> pl.DataFrame:
    """The rows of the table `host_op`; writes the tables `stack` and `gc`."""
    sink.sql(
        con, "gc",
        "WITH own AS (SELECT tid_number AS tid, ts_ns AS start_ns, dur_ns, "
        "name = '<built-in function collect>' AS call FROM event "
        "WHERE what IN ('python', 'op', 'mark') AND (name = '<built-in function collect>' "
        "OR name ILIKE 'python gc%' AND regexp_matches(name, '^python gc( |$)', 'i'))) "
        # Without that option of the profiler, Python's frames still show who calls the collector.
        "SELECT * EXCLUDE call FROM own WHERE NOT call OR (SELECT bool_and(call) FROM own) ORDER BY start_ns",
    )  # fmt: skip
    _stacks(con, sink)
    con.execute(
        "CREATE TEMP TABLE blocking AS SELECT DISTINCT correlation AS copied FROM event "
        f"WHERE what = 'memcpy' AND contains(name, '{TO_PAGEABLE}') AND correlation IS NOT NULL"
    )
    ((waits,),) = con.execute("SELECT count(*) > 0 FROM blocking").fetchall()
    rows = with_signatures(fetched(con, _query(waits=waits)), shapes="shapes", dtypes="dtypes", strides="strides")
    texts = rows.select(_TEXTS)
    nested = _nested(rows.drop(_TEXTS).with_row_index("row"))
    del rows
    texts = texts.select(pl.all().gather(nested["row"]))
    return own_host(step, nested.drop("row").with_columns(*texts))


def _stacks(con: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    con.execute(
        "CREATE TEMP TABLE stack AS SELECT row_number() OVER (ORDER BY place) - 1 AS stack_id, call FROM ("
        'SELECT args."Call stack" AS call, min(ts_ns) AS place FROM event '
        "WHERE what IN ('step', 'op', 'mark', 'runtime') AND coalesce(args.\"Call stack\", '') <> '' GROUP BY 1)"
    )
    sink.sql(con, "stack", "SELECT stack_id, replace(call, ';', chr(10)) AS frames FROM stack ORDER BY stack_id")


def _query(*, waits: bool) -> str:
    name, joined = "name", ""
    if waits:
        name = f"CASE WHEN copied IS NOT NULL AND what IN ('runtime', 'driver') THEN name || '{BLOCKS}' ELSE name END"
        joined = "LEFT JOIN blocking ON blocking.copied = event.correlation"
    # Kineto gives Python frames of an unknown thread process 0 and thread 0: `lane` keeps their trees.
    unknown = "what = 'python' AND pid = '0' AND tid = '0'"
    return f"""
        SELECT CAST(what AS ENUM ('step', 'op', 'python', 'mark', 'runtime', 'driver')) AS kind,
            {name} AS name, CASE WHEN NOT ({unknown}) THEN pid_number END AS pid,
            CASE WHEN NOT ({unknown}) THEN tid_number END AS tid,
            ts_ns AS start_ns, dur_ns, CASE WHEN what IN ('runtime', 'driver') THEN correlation END AS correlation,
            CASE WHEN {unknown} THEN TRY_CAST(args."Python id" AS BIGINT) END AS lane,
            CASE WHEN {unknown} THEN TRY_CAST(args."Python parent id" AS BIGINT) END AS parent,
            args."Input Dims" AS shapes, args."Input type" AS dtypes, strides,
            TRY_CAST(args."Sequence number" AS BIGINT) AS sequence,
            nullif(TRY_CAST(args."Fwd thread id" AS BIGINT), 0) AS forward_tid, stack_id
        FROM event LEFT JOIN stack ON stack.call = args."Call stack" {joined}
        WHERE what IN ('step', 'op', 'python', 'mark', 'runtime', 'driver')
    """


def _nested(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows nested by thread; Python frames without a thread nest by their tree."""
    lost = rows["lane"].is_not_null()
    if not lost.any():
        return nest(rows.drop("lane", "parent"))
    frames = rows.filter(lost)
    root = _roots(frames["lane"].to_numpy(), frames["parent"].fill_null(-1).to_numpy())
    tree = np.full(rows.height, -1, dtype=np.int64)
    tree[lost.to_numpy()] = root
    rows = rows.drop("lane", "parent").with_columns(pl.Series("tree", tree))
    owner = _owner(rows)
    if owner is not None:
        # The largest tree belongs to the thread that marks the steps.
        mine = pl.col("tree") == int(np.bincount(root).argmax())
        rows = rows.with_columns(
            pl.when(mine).then(pl.lit(owner[0], dtype=pl.Int64)).otherwise("pid").alias("pid"),
            pl.when(mine).then(pl.lit(owner[1], dtype=pl.Int64)).otherwise("tid").alias("tid"),
            pl.when(~mine).then("tree").otherwise(-1).alias("tree"),
        )
    nested = nest(
        rows.with_columns(pl.when(pl.col("tree") >= 0).then(-2 - pl.col("tree")).otherwise("tid").alias("tid"))
    )
    return nested.with_columns(pl.when(pl.col("tree") < 0).then("tid").alias("tid")).drop("tree")


def _owner(rows: pl.DataFrame) -> tuple[int, int] | None:
    """Process and thread of the step marks, else of most operators; None if some Python frame has a thread.

    PyTorch before 2.1 gave no Python frame its thread.
    """
    threaded = rows.filter(pl.col("pid").is_not_null() & pl.col("tid").is_not_null())
    if (threaded["kind"] == "python").any():
        return None
    for kind in ("step", "op"):
        ranked = threaded.filter(pl.col("kind") == kind).group_by("pid", "tid").len()
        if ranked.height:
            pid, tid, _ = ranked.sort("len", "pid", "tid", descending=[True, False, False]).row(0)
            return int(pid), int(tid)
    return None


def _roots(ids: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """For each frame, the index of the root of its tree; pointers are halved until none moves."""
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids[order], parents), len(ids) - 1)
    known = ids[order][place] == parents
    up = np.where(known, order[place], np.arange(len(ids)))
    for _ in range(_LONGEST_CHAIN):
        further = up[up]
        if (further == up).all():
            break
        up = further
    return up
