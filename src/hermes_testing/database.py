"""Writes a SQLite file that depends on nothing but its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from hermes_testing.db_schema import INDEXES, Value, columns_of


def write_database(path: Path, tables: Iterable[tuple[str, Iterable[Sequence[Value]]]], schema: str) -> None:
    """Create the tables in order and fill them; page size and journal are fixed, so the bytes repeat."""
    with closing(sqlite3.connect(path, isolation_level=None)) as con:
        con.execute("PRAGMA page_size = 4096")
        con.execute("PRAGMA journal_mode = OFF")
        con.execute("PRAGMA synchronous = OFF")
        con.execute("BEGIN")
        for name, rows in tables:
            columns = columns_of(name, schema)
            con.execute(f"CREATE TABLE {name} ({','.join(f'{column} {kind}' for column, kind in columns)})")
            con.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(columns))})", rows)
            if name in INDEXES:
                con.execute(INDEXES[name])
        con.execute("COMMIT")
