"""Reads the communication operations of a Kineto trace: communication kernels, or the host's collectives on CPU."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl

from hermes.knowledge.collectives import BACKENDS, dtypes, op_of_words
from hermes.profiles.read.assign_rows_to_steps import own_device, own_host
from hermes.profiles.read.chrome import sparse_sql
from hermes.profiles.read.kineto.comm_calls import with_calls
from hermes.profiles.read.kineto.device import DEVICE, STREAM
from hermes.profiles.read.kineto.missing_tasks import with_possible_ends
from hermes.profiles.read.query import fetched, only_row
from hermes.profiles.read.table_sink import Sink

_FACTS = (
    "Collective name", "In msg nelems", "Out msg nelems", "dtype", "Process Group Name",
    "Src Rank", "Dst Rank",
)  # fmt: skip


def write_comm(con: duckdb.DuckDBPyConnection, job: Any, step: pl.DataFrame, sink: Sink) -> None:
    """Write the table `comm_op`: kernels if the device communicated, else the host's own collectives.

    Host ranges beside device kernels are only calls that enqueue; they are not counted a second time. Gloo's ranges
    name no group: if `job`, the trace's `distributedInfo`, has a single group, that group is taken.
    """
    devices, kernels = only_row(
        con,
        "SELECT count(*), count(*) FILTER (what = 'kernel' AND (library IS NOT NULL "
        f"OR ({sparse_sql('Collective name')} IS NOT NULL AND NOT coalesce(local, false)))) "
        "FROM event LEFT JOIN kernel_name USING (name) WHERE what IN ('kernel', 'memcpy', 'memset')",
    )
    if kernels:
        rows, _, _ = with_possible_ends(fetched(con, _device_query()))
        rows = own_device(step, with_calls(con, rows.drop("device_id"), sink.rank))
    else:
        rows = own_host(step, _host_rows(con, with_device=devices > 0).with_columns(_group(job)))
    sink.frame("comm_op", _finished(rows))


def _group(job: Any) -> pl.Expr:
    """The name of the group of a host's row, in the column of the trace's own name for it."""
    own = pl.col("Process Group Name")
    listed = job.get("pg_config") if isinstance(job, dict) else None
    only = listed[0] if isinstance(listed, list) and len(listed) == 1 else None
    name = only.get("pg_name") if isinstance(only, dict) else None
    return own if name is None else pl.coalesce(own.replace("", None), pl.lit(str(name)))


def _device_query() -> str:
    # Until 2.3 PyTorch put the details only on the `record_param_comms` row of the host.
    own = ", ".join(f'coalesce({sparse_sql(fact)}, facts."{fact}") AS "{fact}"' for fact in _FACTS)
    noted = ", ".join(f'first({sparse_sql(fact)}) AS "{fact}"' for fact in _FACTS)
    return f"""
        WITH facts AS (
            SELECT external, {noted} FROM event
            WHERE what = 'op' AND name = 'record_param_comms' AND external IS NOT NULL GROUP BY external
        )
        SELECT name, k.op AS op, coalesce(library, 'unknown') AS library, {STREAM} AS stream,
            {DEVICE} AS device_id, ts_ns AS start_ns, dur_ns,
            event.correlation, launch_ns, {own}
        FROM event LEFT JOIN launch USING (correlation) LEFT JOIN operator
            ON operator.correlation IS NOT DISTINCT FROM event.correlation
            AND operator.external IS NOT DISTINCT FROM event.external
            LEFT JOIN facts ON facts.external = operator.call LEFT JOIN kernel_name AS k USING (name)
        WHERE what = 'kernel'
            AND (k.library IS NOT NULL OR ({sparse_sql("Collective name")} IS NOT NULL AND NOT k.local))
        ORDER BY start_ns, stream, dur_ns, name
    """


def _host_rows(con: duckdb.DuckDBPyConnection, *, with_device: bool) -> pl.DataFrame:
    """The host's collectives, from the best record there is: the backend's work, its call, or the dispatcher's call."""
    backend = f"regexp_matches(name, '^({'|'.join(BACKENDS)}):')"
    records = [f"what IN ('mark', 'op') AND {backend}"]
    if not with_device:
        records += ["what = 'op' AND name = 'record_param_comms'", "what = 'op' AND name LIKE 'c10d::%'"]
    for record in records:
        rows = fetched(con, _host_query(record))
        if rows.height:
            break
    ops = {name: op_of_words(name.rpartition(":")[2]) for name in rows["name"].unique()}
    rows = rows.with_columns(pl.col("name").replace_strict(ops, default="unknown", return_dtype=pl.String).alias("op"))
    # `c10d::` also holds calls that move no data.
    return rows.filter((pl.col("op") != "unknown") | pl.col("Collective name").is_not_null())


def _host_query(record: str) -> str:
    facts = ", ".join(f'{sparse_sql(fact)} AS "{fact}"' for fact in _FACTS if fact not in ("In msg nelems", "dtype"))
    dims = "regexp_extract_all(regexp_extract(args.\"Input Dims\", '\\[[0-9, ]+\\]'), '\\d+')"
    # A tensor without dimensions holds one number; an argument that is no tensor has neither dimensions nor a type with
    # a size.
    single = "regexp_matches(args.\"Input Dims\", '^\\[\\[\\]')"
    product = f"CASE WHEN {single} THEN 1 ELSE list_aggregate(TRY_CAST({dims} AS DOUBLE[]), 'product') END"
    first_type = 'nullif(regexp_extract(args."Input type", \'"([^"]+)"\', 1), \'\')'
    return f"""
        SELECT name, CASE WHEN contains(name, ':') AND NOT contains(name, '::') THEN split_part(name, ':', 1)
            END AS library, NULL::BIGINT AS stream, ts_ns AS start_ns, dur_ns, NULL::BIGINT AS correlation,
            NULL::BIGINT AS launch_ns, {facts},
            coalesce({sparse_sql("In msg nelems")}, CAST(TRY_CAST({product} AS BIGINT) AS VARCHAR)) AS "In msg nelems",
            coalesce({sparse_sql("dtype")}, {first_type}) AS dtype
        FROM event WHERE {record} ORDER BY start_ns, tid_number, dur_ns, name
    """


def _finished(rows: pl.DataFrame) -> pl.DataFrame:
    """Turn names into operations and elements into bytes, and number the operations of each group."""
    recorded = {name: op_of_words(name) for name in rows["Collective name"].drop_nulls().unique()}
    told = pl.col("Collective name").replace_strict(recorded, default="unknown", return_dtype=pl.String)
    known = told.is_not_null() & (told != "unknown")
    size = (
        pl.col("dtype")
        .str.to_lowercase()
        .str.strip_prefix("c10::")
        .replace_strict(dtypes(), default=None, return_dtype=pl.Int64)
    )
    sent, received = _number("In msg nelems"), _number("Out msg nelems")
    elements = pl.max_horizontal(sent, received)
    group = pl.when(pl.col("Process Group Name") != "").then(pl.col("Process Group Name"))
    rows = rows.with_columns(
        pl.when(known).then(told).otherwise(pl.col("op").fill_null("unknown")).alias("op"),
        elements.alias("count"),
        # A value beyond 2^53 bytes is no size.
        pl.when(elements < 2**49).then(elements * size).alias("bytes"),
        group.alias("group"),
    )
    peer = (
        pl.when(pl.col("op") == "send").then(_number("Dst Rank"))
        .when(pl.col("op") == "recv").then(_number("Src Rank"))
    )  # fmt: skip
    rows = rows.with_columns(
        peer.alias("peer"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("comm_id"),
        pl.when(pl.col("group").is_not_null())
        .then(pl.int_range(pl.len(), dtype=pl.Int64).over("group"))
        .alias("sequence"),
    )
    return rows.drop([fact for fact in _FACTS if fact != "dtype"])


def _number(column: str) -> pl.Expr:
    number = pl.col(column).cast(pl.Int64, strict=False)
    return pl.when(number >= 0).then(number)
