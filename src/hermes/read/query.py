"""Pieces of DuckDB queries that several readers need."""

from __future__ import annotations

from typing import Any

import duckdb


def one(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """The only row of an aggregate query.

    `fetchone` would leave the result open, and DuckDB refuses other work on the connection until it is read to its end.
    """
    rows = con.execute(query).fetchall()
    return tuple(rows[0])


def literal(text: object) -> str:
    """A text or a path as a literal of SQL, with its quotes."""
    return "'" + str(text).replace("'", "''") + "'"


def ns_sql(text: str) -> str:
    """SQL for nanoseconds of a text in microseconds, exact and rounded half up; null for text that is no number.

    The cast to three decimals rounds to the nanosecond. Eighteen digits, which most values fit, cast ten times faster
    than more; times since 1970 need nineteen.
    """
    digits = f"coalesce(TRY_CAST({text} AS DECIMAL(18, 3))::DECIMAL(22, 3), TRY_CAST({text} AS DECIMAL(22, 3)))"
    return f"TRY_CAST({digits} * 1000 AS BIGINT)"
