"""Reads the flows of a Kineto trace, and the allocators' memory from its `[memory]` marks."""

from __future__ import annotations

import duckdb
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.profiles.read.chrome import sparse_sql
from hermes.profiles.read.kineto.device import STREAM
from hermes.profiles.read.query import fetched
from hermes.profiles.read.table_sink import Sink

_FLOW_KIND = {
    "ac2g": "launch", "async": "launch", "async_cpu_to_gpu": "launch", "async_gpu": "launch", "launch": "launch",
    "fwdbwd": "forward_backward", "fwd_bwd": "forward_backward", "forward_backward": "forward_backward",
}  # fmt: skip

# Values of c10/core/DeviceType.h.
_DEVICE_TYPE = {
    0: "cpu",
    1: "cuda",
    6: "hip",
    9: "xla",
    12: "xpu",
    13: "mps",
    15: "hpu",
    19: "mtia",
    20: "privateuse1",
}


def write_flows(con: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    """Write the table `flow`: each end with the start of its id.

    Kineto also writes ends on the host thread that launched, and ends without a start; they are no arrows.
    """
    kinds = " ".join(f"WHEN '{name}' THEN '{kind}'" for name, kind in _FLOW_KIND.items())
    stream = "coalesce(tid_number, TRY_CAST(regexp_extract(tid, '(\\d+)$', 1) AS BIGINT))"
    sink.sql(
        con, "flow",
        f"""
        WITH point AS (
            SELECT ph, coalesce(CASE lower(name) {kinds} END, CASE lower(cat) {kinds} END, 'mark') AS kind,
                id, pid_number AS pid, {stream} AS tid, ts_ns AS ns
            FROM event WHERE ph IN ('s', 'f') AND id IS NOT NULL
        ),
        source AS (
            SELECT kind, id, min(ns) AS ns, arg_min(pid, ns) AS pid, arg_min(tid, ns) AS tid
            FROM point WHERE ph = 's' GROUP BY kind, id
        )
        SELECT kind, id AS flow_id, s.pid AS src_pid, s.tid AS src_tid, s.ns AS src_ns,
            f.pid AS dst_pid, f.tid AS dst_tid, f.ns AS dst_ns
        FROM (SELECT * FROM point WHERE ph = 'f') AS f JOIN source AS s USING (kind, id)
        WHERE NOT (kind = 'launch' AND f.pid IS NOT DISTINCT FROM s.pid AND f.tid IS NOT DISTINCT FROM s.tid)
        UNION ALL {_events()}
        """,
    )  # fmt: skip


def _events() -> str:
    """SQL for event arrows: from an event's record on its stream to the waiting stream, or to the host as no stream.

    The moments are those of the calls: the trace does not tell when the device reached them.
    """
    record = f"TRY_CAST({sparse_sql('wait_on_cuda_event_record_corr_id')} AS BIGINT)"
    stream = f"TRY_CAST({sparse_sql('wait_on_stream')} AS BIGINT)"
    return f"""
        SELECT 'event' AS kind, CAST({record} AS VARCHAR) AS flow_id, NULL::BIGINT AS src_pid, {stream} AS src_tid,
            call.ts_ns AS src_ns, wait.pid_number AS dst_pid, {STREAM} AS dst_tid, wait.ts_ns AS dst_ns
        FROM (SELECT * FROM event WHERE what = 'sync') AS wait JOIN (
            SELECT correlation AS called, min(ts_ns) AS ts_ns FROM event
            WHERE what IN ('runtime', 'driver') AND correlation IS NOT NULL AND name ILIKE '%EventRecord%' GROUP BY 1
        ) AS call ON call.called = {record}
        WHERE {record} > 0 AND {stream} >= 0
    """


def write_memory(con: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    """Write the table `memory`; leaves the temporary table `mark` for the allocations."""
    types = " ".join(f"WHEN {number} THEN '{name}'" for number, name in _DEVICE_TYPE.items())
    con.execute(
        f"""
        CREATE TEMP TABLE mark AS
        SELECT coalesce(CASE device_type {types} END, 'device type ' || device_type, 'unknown') AS component, *
        FROM (
            SELECT ts_ns, pid_number AS pid, tid_number AS tid, args.Addr AS address,
                TRY_CAST(args."Device Type" AS BIGINT) AS device_type, TRY_CAST(args.bytes AS BIGINT) AS bytes,
                CASE WHEN TRY_CAST(args."Device Id" AS BIGINT) >= 0 THEN TRY_CAST(args."Device Id" AS BIGINT)
                    END AS device_id,
                TRY_CAST(args."Total Allocated" AS BIGINT) AS allocated_bytes,
                TRY_CAST(args."Total Reserved" AS BIGINT) AS reserved_bytes
            FROM event WHERE ph IN ('i', 'I') AND name = '[memory]'
        )
        """
    )
    sink.sql(
        con, "memory",
        "SELECT component, ts_ns, allocated_bytes, reserved_bytes, device_id FROM mark "
        "WHERE allocated_bytes IS NOT NULL OR reserved_bytes IS NOT NULL ORDER BY component, device_id, ts_ns",
    )  # fmt: skip


def write_allocations(con: duckdb.DuckDBPyConnection, host_op: pl.DataFrame, sink: Sink) -> None:
    """Write the table `allocation`; the rows of the table `host_op` name the call that allocated a block."""
    rows = fetched(
        con,
        """
        SELECT bytes, alloc_ns, CASE WHEN next_bytes < 0 THEN next_ns END AS release_ns, device_id, pid, tid FROM (
            SELECT bytes, ts_ns AS alloc_ns, device_id, pid, tid,
                lead(ts_ns) OVER block AS next_ns, lead(bytes) OVER block AS next_bytes
            FROM mark WHERE device_type <> 0 AND address IS NOT NULL AND bytes IS NOT NULL
            WINDOW block AS (PARTITION BY device_type, device_id, address ORDER BY ts_ns, bytes)
        ) WHERE bytes > 0 ORDER BY alloc_ns
        """,
    )
    if not rows.height:
        return
    op = host_op.filter(pl.col("kind") == "op").select("pid", "tid", "start_ns", "dur_ns", "name")
    name = op["name"].gather(enclosing(op, rows.rename({"alloc_ns": "start_ns"})))
    named = rows.with_columns(name.fill_null("unknown").alias("name"))
    sink.frame("allocation", named.drop("pid", "tid"))
