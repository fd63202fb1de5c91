"""One row of a DuckDB query, with its result closed behind it."""

from __future__ import annotations

from typing import Any

import duckdb


def one(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    """The only row of an aggregate query.

    `fetchone` would leave the result open, and DuckDB refuses other work on the connection until it is read to its end.
    """
    rows = con.execute(query).fetchall()
    return tuple(rows[0])
