"""Finds the operator that each device task belongs to: the operator around its launch.

Traps: `External id` is the operator's number in most traces, and the correlation of the launch in others (PyTorch 1.12
to 2.2 wrote such). In those traces operators have numbers of their own, and a task bears the number of any operator. So
a number counts only if the launch lies inside the named operator. Tasks that one call launched as a graph belong to the
call that started the graph, not to the operators that were captured.
"""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.profiles.read.query import fetched, keep_frame

_ROUNDED_NS = 2_000
"""The most ns by which rounding to whole microseconds may put a launch outside its operator."""
_FIRST_OWN_CALL = 1 << 62
"""Calls that no `External id` names are numbered from here."""
_DEVICE = "what IN ('kernel', 'memcpy', 'memset')"
_KEY = "correlation, external"


def write_operators(con: duckdb.DuckDBPyConnection) -> None:
    """Write the temporary table `operator`, by the numbers of tasks (`correlation, external`); needs `launch`.

    `type, shapes, types, given` describe the operator; `call` is equal for tasks of one call of it.
    """
    inside = (
        "named.pid IS NOT DISTINCT FROM by_pid AND named.tid IS NOT DISTINCT FROM by_tid "
        f"AND launch_ns BETWEEN start_ns - {_ROUNDED_NS} AND start_ns + named.dur_ns + {_ROUNDED_NS}"
    )
    con.execute(
        f"""
        CREATE TEMP TABLE operator AS
        WITH asked AS (SELECT DISTINCT {_KEY} FROM event WHERE {_DEVICE}),
        named AS (
            SELECT external, {_facts("ts_ns")}, min(ts_ns) AS start_ns, arg_min(dur_ns, ts_ns) AS dur_ns,
                arg_min(pid_number, ts_ns) AS pid, arg_min(tid_number, ts_ns) AS tid
            FROM event SEMI JOIN asked USING (external) WHERE what = 'op' GROUP BY external
        )
        SELECT asked.correlation, external, type, shapes, types, given, external AS call
        FROM asked JOIN named USING (external) LEFT JOIN launch ON launch.correlation = asked.correlation
        WHERE launch_ns IS NULL OR ({inside})
        """
    )
    _enclose(con)


def _facts(order: str) -> str:
    """SQL for the facts of the first of several rows of operators."""
    columns = {"type": "name", "shapes": 'args."Input Dims"', "types": 'args."Input type"', "given": "given"}
    return ", ".join(f"arg_min({value}, {order}) AS {name}" for name, value in columns.items())


def _enclose(con: duckdb.DuckDBPyConnection) -> None:
    """Add the innermost operator around the launch for tasks whose number names no operator around it."""
    left = fetched(
        con,
        f"WITH asked AS (SELECT DISTINCT {_KEY} FROM event WHERE {_DEVICE} AND correlation IS NOT NULL) "
        "SELECT asked.correlation, asked.external, by_pid AS pid, by_tid AS tid, launch_ns AS start_ns "
        "FROM asked JOIN launch USING (correlation) LEFT JOIN operator "
        "ON operator.correlation = asked.correlation AND operator.external IS NOT DISTINCT FROM asked.external "
        "WHERE operator.type IS NULL AND NOT graph AND by_pid IS NOT NULL AND by_tid IS NOT NULL "
        f"ORDER BY launch_ns, {_KEY}",
    )
    if not left.height:
        return
    threads = ", ".join(str(tid) for tid in left["tid"].unique().to_list())
    own = fetched(
        con,
        "SELECT DISTINCT pid_number AS pid, tid_number AS tid, ts_ns AS start_ns, dur_ns FROM event "
        f"WHERE what = 'op' AND pid_number IS NOT NULL AND tid_number IN ({threads}) ORDER BY start_ns, dur_ns DESC",
    )
    own = own.with_columns(pl.Series("call", _FIRST_OWN_CALL + np.arange(own.height, dtype=np.int64)))
    place = enclosing(own, left)
    around = place.is_not_null()
    found = left.select("correlation", "external").filter(around).hstack(own[place.drop_nulls()])
    if not found.height:
        return
    keep_frame(con, "around", found)
    con.execute(
        f"""
        INSERT INTO operator
        WITH wanted AS (SELECT DISTINCT pid, tid, start_ns, dur_ns, call FROM around),
        named AS (
            SELECT call, {_facts("name")} FROM wanted JOIN event ON what = 'op' AND event.pid_number = wanted.pid
                AND event.tid_number = wanted.tid AND event.ts_ns = wanted.start_ns AND event.dur_ns = wanted.dur_ns
            GROUP BY call
        )
        SELECT correlation, external, type, shapes, types, given, call FROM around JOIN named USING (call)
        """
    )
    con.execute("DROP TABLE around")
