"""Reads `trace_view.json` into tables: host calls, device tasks, communication, arrows and counters.

Traps: only the names of processes and threads are stable, never their numbers. HCCL was renamed Communication, and its
group lanes carry an index or a hash. Flow ids exceed 64 bits, and one start may have several ends. Level0 has host ends
of flows on a process without name. The tasks of a collective appear on its planes and again on a stream.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import polars as pl

from hermes.profiles.read.assign_rows_to_steps import own_host
from hermes.profiles.read.chrome import ScannedTrace, scan, sparse_sql
from hermes.profiles.read.nest_calls import nest
from hermes.profiles.read.query import fetched, only_row
from hermes.profiles.read.table_sink import Sink

_SERIES = (
    "MHz",
    "KB",
    "Read(MB/s)",
    "Write(MB/s)",
    "Throughput(MB/s)",
    "Hit Rate(%)",
    "value",
    "Mata Bw Level",
    "L2 Buffer Bw Level",
    "Bandwidth(MB/s)",
    "Rx",
    "Tx",
    "Bandwidth",
    "Usage(%)",
)
SPARSE = (
    "labels", "data size(Byte)", "size(B)", "memcpy direction", "operation", "data_type", "alg_type", "count",
)  # fmt: skip
"""Arguments of copies and of collectives, which are few beside host calls and samples."""
ARGUMENTS = (
    "name",
    "Sequence number",
    "Fwd thread id",
    "Input Dims",
    "Input type",
    "Call stack",
    "level",
    "connection_id",
    "Task Type",
    "Physic Stream Id",
    "Task Id",
    "src rank",
    "dst rank",
    "transport type",
    "size(Byte)",
    "link type",
    "stream id",
    "acc_id",
    *SPARSE,
)
"""The arguments of events that are read, except for the series of counters."""
_INTEGERS = (
    "Sequence number", "Fwd thread id", "connection_id", "Physic Stream Id", "Task Id",
    "src rank", "dst rank", "size(Byte)", "stream id",
)  # fmt: skip
# "None" as the writer has it; 2^64 - 1 fits no integer here and is null already.
_NONE = "4294967295, -1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The scanned trace for later steps of the Ascend reader: views on `con`.

    `task` (device tasks of the Ascend Hardware lanes), `group_op` and `plane_task` (communication), `exact` (the ends
    that the Overlap Analysis lane keeps), `launch` (host time by device start). `step` is the table of that name.
    """

    con: duckdb.DuckDBPyConnection
    step: pl.DataFrame
    first_ns: int | None
    counting: Future[None]
    """Completes when the table of counters has been written."""


def read_trace(path: Path, sink: Sink, pool: Executor) -> Trace:
    """Scan the trace and write step, host_op, stack, flow and gc; raises `TraceFormatError` as `scan`.

    `pool` reads the host's events in parallel with the device's, and the counters in parallel with the rest.
    """
    return read_scanned(scan_trace(path, sink), sink, pool)


def scan_trace(path: Path, sink: Sink) -> ScannedTrace:
    """The events of a trace, with the arguments that are read."""
    return scan(path, ARGUMENTS, sink, one_of=_SERIES, integers=_INTEGERS, sparse=SPARSE)


def read_scanned(scanned: ScannedTrace, sink: Sink, pool: Executor, step: pl.DataFrame | None = None) -> Trace:
    """`read_trace` for scanned events; `step` is the table of that name if the events do not mark steps."""
    con = scanned.con
    _processes(con, scanned)
    if step is None:
        step = _steps(con)
    sink.frame("step", step)
    hosting = pool.submit(_host, scanned, step, sink)
    counting = pool.submit(_counters, scanned, sink)
    _lanes(con)
    _flows(con, sink)
    _device_views(con)
    first_ns = only_row(con, "SELECT min(ts_ns) FROM event WHERE ph = 'X'")[0]
    hosting.result()
    return Trace(con=con, step=step, first_ns=first_ns, counting=counting)


def _processes(con: duckdb.DuckDBPyConnection, scanned: ScannedTrace) -> None:
    """Make views of the events, and of the name of each process."""
    con.execute(f"CREATE TEMP VIEW event AS SELECT * REPLACE (coalesce(name, '') AS name) FROM {scanned.events}")
    con.execute(f"""
        CREATE TEMP TABLE process AS
        SELECT pid, any_value(args."name") FILTER (name = 'process_name') AS process,
               TRY_CAST(nullif(regexp_extract(any_value({sparse_sql("labels")}) FILTER (name = 'process_labels'),
                   '^NPU (\\d+)$', 1), '') AS BIGINT) AS device_id
        FROM event WHERE ph = 'M' GROUP BY pid;
    """)


def _lanes(con: duckdb.DuckDBPyConnection) -> None:
    """Name each thread, and find the group lane that each plane of a communication process belongs to."""
    con.execute("""
        CREATE TEMP TABLE thread AS
        SELECT pid, tid, any_value(args."name") AS thread FROM event WHERE ph = 'M'
            AND name = 'thread_name' GROUP BY pid, tid;
        CREATE TEMP TABLE plane AS
        SELECT pid, tid, thread,
               TRY_CAST(regexp_extract(thread, '^Plane (\\d+)$', 1) AS BIGINT) AS plane,
               last_value(CASE WHEN thread LIKE 'Group%' THEN regexp_extract(thread, '^Group (\\S+)',
                   1) END IGNORE NULLS)
                   OVER (PARTITION BY pid ORDER BY TRY_CAST(tid AS BIGINT)) AS lane
        FROM thread SEMI JOIN (SELECT pid FROM process WHERE process IN ('HCCL', 'Communication')) USING (pid);
    """)


def _steps(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    return fetched(
        con,
        """
        SELECT TRY_CAST(name[14:] AS BIGINT) AS step, min(ts_ns) AS start_ns,
               max(ts_ns + dur_ns) - min(ts_ns) AS dur_ns, any_value(name) AS name
        FROM event WHERE ph = 'X' AND name LIKE 'ProfilerStep#%' AND TRY_CAST(name[14:] AS BIGINT) IS NOT NULL
        GROUP BY 1 ORDER BY 2
    """,
    )


def _host(scanned: ScannedTrace, step: pl.DataFrame, sink: Sink) -> None:
    with contextlib.closing(sink.connect(memory_mb=100)) as con:
        _processes(con, scanned)
        _host_tables(con, step, sink)


def _host_tables(con: duckdb.DuckDBPyConnection, step: pl.DataFrame, sink: Sink) -> None:
    con.execute(f"""
        CREATE TEMP VIEW host AS SELECT
          CASE WHEN e.name LIKE 'ProfilerStep#%' THEN 'step'
               WHEN cat IN ('enqueue', 'dequeue') THEN cat
               WHEN cat = 'python_function' THEN 'python'
               WHEN args."level" = 'communication' THEN 'hccl'
               WHEN args."level" IN ('acl', 'runtime', 'node', 'model', 'hccl') THEN args."level"
               WHEN cat = 'cpu_op' OR process IN ('MindSpore', 'CPU OP') THEN 'op'
               ELSE 'mark' END AS kind,
          regexp_replace(e.name, '^(AscendCL|Node|Runtime|Hccl|Communication|Model)@', '') AS name,
          -- The process number of the CANN lanes is made up; its threads are those of the Python process.
          CASE WHEN process = 'CANN' THEN coalesce((SELECT TRY_CAST(min(pid) AS BIGINT) FROM process
              WHERE process = 'Python' HAVING count(*) = 1),
               TRY_CAST(pid AS BIGINT)) ELSE TRY_CAST(pid AS BIGINT) END AS pid,
          TRY_CAST(tid AS BIGINT) AS tid, ts_ns AS start_ns, dur_ns,
              args."connection_id" AS correlation,
          nullif(regexp_replace(args."Input Dims", ';?\\r\\n', ';', 'g'), '') AS shapes,
          nullif(regexp_replace(args."Input type", ';?\\r\\n', ';', 'g'), '') AS dtypes,
          CASE WHEN args."Sequence number" NOT IN ({_NONE}) THEN args."Sequence number" END AS sequence,
          nullif(args."Fwd thread id", 0) AS forward_tid,
          CASE WHEN args."Call stack" <> '' THEN hash(args."Call stack") END AS stack_hash,
          hash(e.name) AS tie
        FROM event e LEFT JOIN process USING (pid)
        WHERE ph = 'X' AND cat IS DISTINCT FROM 'GC' AND (process IS NULL OR process IN ('Python', 'CANN',
            'MindSpore', 'CPU OP', 'Scope Layer')
              OR process LIKE 'python%')
    """)
    con.execute("""
        CREATE TEMP TABLE stack AS
        SELECT stack_hash, row_number() OVER (ORDER BY stack_hash) - 1 AS stack_id, frames FROM (
          SELECT hash(args."Call stack") AS stack_hash, any_value(replace(replace(args."Call stack", chr(13), ''),
              ';' || chr(10), chr(10))) AS frames
          FROM event WHERE args."Call stack" <> '' GROUP BY 1)
    """)
    sink.sql(con, "stack", "SELECT stack_id, frames FROM stack")
    # The widest table: no two forms of it are kept at once.
    query = "SELECT host.* EXCLUDE (stack_hash), stack_id FROM host LEFT JOIN stack USING (stack_hash)"
    sink.frame("host_op", own_host(step, nest(fetched(con, query))))
    gc = fetched(
        con,
        """
        SELECT TRY_CAST(tid AS BIGINT) AS tid, ts_ns AS start_ns, dur_ns FROM event LEFT JOIN process USING (pid)
        WHERE ph = 'X' AND (cat = 'GC' OR process = 'Python GC') ORDER BY start_ns
    """,
    )
    sink.frame("gc", gc)


def _flows(con: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    con.execute("""
        CREATE TEMP TABLE arrow AS
        WITH leave AS (SELECT cat, id, pid, tid, ts_ns FROM event WHERE ph = 's'),
             reach AS (SELECT cat, id, pid, tid, ts_ns FROM event WHERE ph = 'f')
        SELECT CASE WHEN cat = 'HostToDevice' THEN 'launch' WHEN cat = 'async_npu' THEN 'operator'
                    WHEN cat = 'async_task_queue' THEN 'queue' WHEN cat = 'fwdbwd' THEN 'forward_backward'
                        ELSE 'mark' END AS kind,
               id AS flow_id, leave.pid AS src_pid, leave.tid AS src_tid, leave.ts_ns AS src_ns,
               reach.pid AS dst_pid, reach.tid AS dst_tid, reach.ts_ns AS dst_ns
        FROM leave JOIN reach USING (cat, id)
    """)
    sink.sql(
        con,
        "flow",
        "SELECT kind, flow_id, TRY_CAST(src_pid AS BIGINT) AS src_pid, TRY_CAST(src_tid AS BIGINT) AS src_tid, src_ns, "
        "TRY_CAST(dst_pid AS BIGINT) AS dst_pid, TRY_CAST(dst_tid AS BIGINT) AS dst_tid, dst_ns FROM "
        "arrow ORDER BY ALL",
    )


def _counters(scanned: ScannedTrace, sink: Sink) -> None:
    """Write the counters, over a separate connection: nothing else needs them.

    Most samples have one known series; a file with others is read once more for all of its series.
    """
    with contextlib.closing(sink.connect()) as con:
        _processes(con, scanned)
        plain = only_row(con, "SELECT count(*) = 0 FROM event WHERE ph = 'C' AND key IS NULL")[0]
        label = "CASE WHEN {0} IS NULL THEN name ELSE name || ' ' || {0} END AS name"
        samples = (
            f"""SELECT pid, {label.format('args."acc_id"')}, ts_ns, key AS series, text FROM event WHERE ph = 'C'"""
        )
        if not plain:
            again = replace(scanned, con=con).counters()
            samples = f"""SELECT pid, {label.format("args['acc_id']")}, ts_ns, unnest(map_keys(args)) AS series,
                                 unnest(map_values(args)) AS text FROM {again}"""
        sink.sql(
            con,
            "counter",
            f"""SELECT coalesce(process, 'unknown') AS source, coalesce(name, '') AS name, series, ts_ns,
                       TRY_CAST(text AS DOUBLE) AS value, device_id
                FROM ({samples}) LEFT JOIN process USING (pid)
                WHERE series <> 'acc_id' AND ts_ns IS NOT NULL AND isfinite(TRY_CAST(text AS DOUBLE))
                ORDER BY ts_ns, source, name, series, value""",
        )


def _device_views(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"""
        CREATE TEMP TABLE exact AS
        SELECT DISTINCT thread AS lane, ts_ns, dur_ns FROM event JOIN process USING (pid)
            LEFT JOIN thread USING (pid, tid)
        WHERE ph = 'X' AND process = 'Overlap Analysis' AND thread IN ('Computing', 'Communication');
        CREATE TEMP TABLE launch AS
        SELECT dst_pid AS pid, dst_tid AS tid, dst_ns AS start_ns,
               coalesce(min(src_ns) FILTER (kind = 'operator'), min(src_ns)) AS launch_ns
        FROM arrow WHERE kind IN ('operator', 'launch') GROUP BY ALL;
        CREATE TEMP TABLE call AS
        SELECT args."connection_id" AS correlation, min(ts_ns) AS call_ns
        FROM event WHERE ph = 'X' AND args."level" IN ('acl', 'node', 'hccl', 'communication', 'runtime') GROUP BY 1;
        CREATE TEMP TABLE task AS
        SELECT e.name, args."Task Type" AS task_type, device_id,
               coalesce(args."Physic Stream Id", TRY_CAST(e.tid AS BIGINT)) AS stream,
               ts_ns AS start_ns, e.dur_ns, args."Task Id" AS task_id,
               args."connection_id" AS correlation, launch_ns,
               TRY_CAST(coalesce({sparse_sql("data size(Byte)")}, {sparse_sql("size(B)")}) AS BIGINT) AS bytes,
               coalesce({sparse_sql("memcpy direction")}, {sparse_sql("operation")}) AS direction
        FROM event e JOIN process USING (pid) LEFT JOIN launch ON launch.pid = e.pid AND launch.tid = e.tid
            AND launch.start_ns = e.ts_ns
        WHERE ph = 'X' AND process = 'Ascend Hardware';
        CREATE TEMP TABLE group_op AS
        SELECT e.name, p.lane, e.ts_ns AS start_ns,
               CASE WHEN abs(x.dur_ns - e.dur_ns) <= 1 THEN x.dur_ns ELSE e.dur_ns END AS dur_ns,
               args."connection_id" AS correlation, launch_ns, {sparse_sql("data_type")} AS dtype,
               {sparse_sql("alg_type")} AS algorithm, TRY_CAST({sparse_sql("count")} AS BIGINT) AS count
        FROM event e JOIN plane p ON p.pid = e.pid AND p.tid = e.tid LEFT JOIN launch l ON l.pid = e.pid
            AND l.tid = e.tid AND l.start_ns = e.ts_ns
        LEFT JOIN exact x ON x.lane = 'Communication' AND x.ts_ns = e.ts_ns AND abs(x.dur_ns - e.dur_ns) <= 1
        WHERE ph = 'X' AND p.thread LIKE 'Group%';
        CREATE TEMP TABLE sibling AS
        SELECT correlation, min(launch_ns) AS sibling_ns FROM
          (SELECT correlation, launch_ns FROM task UNION ALL SELECT correlation, launch_ns FROM group_op) GROUP BY 1;
        CREATE TEMP TABLE plane_task AS
        SELECT e.name, lane, plane, args."stream id" AS stream, ts_ns AS start_ns, dur_ns,
               CASE WHEN args."src rank" NOT IN ({_NONE}) THEN args."src rank" END AS src_rank,
               CASE WHEN args."dst rank" NOT IN ({_NONE}) THEN args."dst rank" END AS dst_rank,
               args."size(Byte)" AS bytes, args."transport type" AS transport,
                   args."link type" AS link
        FROM event e JOIN plane USING (pid, tid) WHERE ph = 'X' AND plane IS NOT NULL;
    """)
