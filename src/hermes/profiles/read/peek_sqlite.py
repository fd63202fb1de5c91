"""Looks into an SQLite database with the standard library: bounded, and never at computed values.

A view, a virtual table, a computed column or pages that form a ring can make reading a few bytes endless.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

_FEWEST, _PER_BYTE = 10_000_000, 20
"""Limits of SQLite instructions: the least limit, and the limit per byte of the file. A row of 30 bytes takes 20."""
_EVERY = 100_000
_LONGEST = 1 << 20
"""The least limit of bytes of a text, also in a smaller file."""


@contextlib.contextmanager
def looked_into(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection; beyond its bounds it raises `sqlite3.Error`, as for a damaged file."""
    size = path.stat().st_size
    left = [(_FEWEST + _PER_BYTE * size) // _EVERY]

    def is_over() -> bool:
        left[0] -= 1
        return left[0] < 0

    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as con:
        con.set_progress_handler(is_over, _EVERY)
        if hasattr(con, "setlimit"):
            # This option exists since Python 3.11.
            con.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(_LONGEST, min(size, (1 << 31) - 1)))
        yield con


def stored_columns(con: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table that are stored in the file: none of a view or a virtual table, and no computed ones."""
    there = con.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = ?", [table])
    if there.fetchone() is None:
        return []
    # A pragma and no function: a table may have the function's name.
    return [str(row[1]) for row in con.execute(f"PRAGMA table_info({quoted(table)})")]


def quoted(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'
