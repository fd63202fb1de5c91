"""Helpers for DuckDB queries that several readers use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl


def only_row(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """The only row of an aggregate query.

    `fetchone` would leave the result open, and DuckDB refuses other work on the connection until the result is read to
    its end.
    """
    rows = con.execute(query).fetchall()
    return tuple(rows[0])


def fetched(con: duckdb.DuckDBPyConnection, query: str) -> pl.DataFrame:
    """The rows of a query, transferred as Arrow's C stream.

    DuckDB's own `pl()` goes through pyarrow, whose import takes a tenth of a second and 40 MB.
    """
    return pl.DataFrame(con.sql(query))


def keep_frame(con: duckdb.DuckDBPyConnection, table: str, rows: pl.DataFrame) -> None:
    """Make a temporary table of a frame; without pyarrow, as in `fetched`."""
    con.register(f"{table}_rows", _Stream(rows))
    con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {table}_rows")
    con.unregister(f"{table}_rows")


@dataclass(frozen=True, slots=True)
class _Stream:
    """A frame that exposes only its C stream: DuckDB would read a Polars frame through pyarrow."""

    rows: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


def literal(text: object) -> str:
    """A text or a path as a literal of SQL, with its quotes."""
    return "'" + str(text).replace("'", "''") + "'"


def ns_sql(text: str) -> str:
    """SQL for nanoseconds of a text in microseconds, exact and rounded half up; null for text that is no number.

    The SQL tries three ways, the fastest first. The first is a double, if the double is exact. The second is a whole
    number from the text with an exponent, which DuckDB casts without a double. The third is a decimal, whose cast to
    three places rounds.
    """
    number = f"TRY_CAST({text} AS DOUBLE)"
    sure, ns = _by_double(number)
    digits = f"coalesce(TRY_CAST({text} AS DECIMAL(18, 3))::DECIMAL(22, 3), TRY_CAST({text} AS DECIMAL(22, 3)))"
    slow = f"coalesce(TRY_CAST({text} || 'e3' AS BIGINT), TRY_CAST({digits} * 1000 AS BIGINT))"
    # `0x10` must not become a double here: with the exponent it would be another hexadecimal number.
    return f"CASE WHEN {sure} THEN {ns} WHEN {number} IS NOT NULL THEN {slow} END"


def ns_of_double(number: str) -> str:
    """SQL for nanoseconds of a double in microseconds, as exact as `ns_sql`; an error if the double is not enough.

    A whole number of microseconds is exact as far as doubles hold all of them.
    """
    sure, ns = _by_double(number)
    whole = f"{number} = trunc({number}) AND abs({number}) < {2**53}"
    return (
        f"CASE WHEN {number} IS NULL THEN NULL WHEN {sure} THEN {ns} WHEN {whole} THEN CAST({number} AS BIGINT) * 1000 "
        "ELSE error('a time that a double does not hold') END"
    )


def _by_double(number: str) -> tuple[str, str]:
    """SQL for whether a double in microseconds gives exact nanoseconds, and for these nanoseconds.

    Below 2^41 us a double is off by less than 0.125 ns, and its product with 1000 by as much again. So a product within
    0.25 of a whole number rounds as the decimal does.
    """
    scaled = f"({number} * 1000)"
    sure = f"abs({number}) < {2**41} AND abs({scaled} - round({scaled})) < 0.25"
    return sure, f"CAST(round({scaled}) AS BIGINT)"
