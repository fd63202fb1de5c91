"""Reads traces of PyTorch's profiler before Kineto (`torch.autograd.profiler`): a list without categories.

Traps: processes are called `CPU functions` and `CUDA functions`. Operators and ranges look alike. The device's rows are
operators too, timed by events of the device, with their inner calls: only the innermost are work. A copy between host
and device is an operator as well (`to`, `copy_`). Since PyTorch 1.8 the device has no rows, only arrows without an end.
"""

from __future__ import annotations

import duckdb

from hermes.profiles.read.kineto.host import IS_STEP
from hermes.profiles.read.kineto.unmarked_steps import LAUNCHED

HOST, DEVICE = "CPU functions", "CUDA functions"
_COPIES = "^(aten::)?(to|copy_)$"
_MOST_OF_CALL = 2
"""A call that copies pageable memory returns after the copy, which takes most of it: the device's row lies within the
host's, and lasts at least this part of it. A kernel that copies on the device runs after its call, or takes little of
it (CUDA runtime API, "API synchronization behavior")."""


def is_legacy(con: duckdb.DuckDBPyConnection, events: str) -> bool:
    """Whether the events are those of the old profiler."""
    found = con.execute(f"SELECT 1 FROM {events} WHERE ph = 'X' AND cat IS NULL AND pid = '{HOST}' LIMIT 1")
    return bool(found.fetchall())


def write_legacy(con: duckdb.DuckDBPyConnection, events: str) -> None:
    """Write the table `event` in Kineto's form; the id of an arrow becomes the correlation of its launch and task."""
    number = "TRY_CAST(id AS INTEGER)::BIGINT + 1"
    con.execute(
        f"""
        CREATE TEMP TABLE event AS
        WITH own AS (
            SELECT *, ph = 'X' AND pid = '{DEVICE}' AND coalesce(
                lead(ts_ns) OVER (PARTITION BY ph, pid, tid ORDER BY ts_ns, dur_ns DESC) < ts_ns + dur_ns, false
            ) AS holds
            FROM {events}
        ),
        arrow AS (
            SELECT name, ts_ns, tid, min({number}) AS correlation
            FROM own WHERE ph = 'f' AND pid = '{DEVICE}' GROUP BY ALL
        ),
        waited AS (
            SELECT DISTINCT arrow.correlation
            FROM arrow
                JOIN {events} AS start ON start.ph = 's' AND {number.replace("(id", "(start.id")} = arrow.correlation
                JOIN {events} AS call ON call.ph = 'X' AND call.pid = '{HOST}' AND call.tid = start.tid
                    AND call.ts_ns = start.ts_ns AND regexp_matches(call.name, '{_COPIES}')
                JOIN {events} AS copied ON copied.ph = 'X' AND copied.pid = '{DEVICE}' AND copied.ts_ns = arrow.ts_ns
                    AND copied.name = arrow.name AND copied.tid = arrow.tid
            WHERE regexp_matches(arrow.name, '{_COPIES}')
                AND copied.ts_ns >= call.ts_ns AND copied.ts_ns + copied.dur_ns <= call.ts_ns + call.dur_ns
                AND {_MOST_OF_CALL} * copied.dur_ns >= call.dur_ns
        )
        SELECT ph, coalesce(own.name, '') AS name,
            CASE WHEN ph IN ('s', 'f') THEN 'launch' ELSE cat END AS cat, pid, own.tid, own.ts_ns, dur_ns, id,
            args, sparse, given, strides,
            CASE WHEN ph = 's' THEN '{LAUNCHED}' WHEN ph <> 'X' THEN NULL WHEN holds THEN 'ignored'
                WHEN pid = '{DEVICE}' THEN CASE WHEN waited.correlation IS NULL THEN 'kernel' ELSE 'memcpy' END
                WHEN pid = '{HOST}' THEN CASE WHEN {IS_STEP.replace("name", "own.name")} THEN 'step' ELSE 'op' END
                END AS what,
            false AS collective,
            CASE pid WHEN '{HOST}' THEN 1 WHEN '{DEVICE}' THEN 0 END AS pid_number,
            TRY_CAST(own.tid AS BIGINT) AS tid_number, NULL::BIGINT AS external,
            CASE WHEN ph = 's' THEN {number} ELSE arrow.correlation END AS correlation
        FROM own LEFT JOIN arrow ON ph = 'X' AND pid = '{DEVICE}' AND arrow.name = own.name
            AND arrow.ts_ns = own.ts_ns AND arrow.tid = own.tid
            LEFT JOIN waited ON waited.correlation = arrow.correlation
        """
    )
