"""Opens DuckDB connections for all of Hermes: their memory is bounded, and they cannot reach the network."""

from __future__ import annotations

import contextlib
import weakref
from pathlib import Path

import duckdb

from hermes.base.limits import QUERY_BYTES

_MOST_IDLE = 8
_idle: list[duckdb.DuckDBPyConnection] = []
"""DuckDB databases of this process that are free for reuse: opening one takes 30 ms, a third of a small capture."""


def connect(
    *, memory_bytes: int | None = None, threads: int | None = None, spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A new DuckDB database in memory, at most `memory_bytes` (default `QUERY_BYTES`); it overflows into `spill`."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_bytes or QUERY_BYTES.now()}B",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # Store strings as Polars does, so no string need be copied.
        "produce_arrow_string_view": "true",
    }
    if threads:
        settings["threads"] = threads
    settings["temp_directory"] = str(spill) if spill else ""
    con = duckdb.connect(config=settings)
    # On a slow machine DuckDB would write a progress bar to stdout, into the report.
    con.execute("SET enable_progress_bar = false")
    return con


def lent(*, memory_bytes: int, threads: int, spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection to a reusable database; the next caller gets the database once the connection is closed.

    Make only temporary tables and views: they are deleted with the connection.
    """
    with contextlib.suppress(IndexError, duckdb.Error):
        # A database that has spilled refuses another folder: such a database is left to the garbage collector.
        return _lend(_idle.pop(), memory_bytes, threads, spill)
    return _lend(connect(), memory_bytes, threads, spill)


def _lend(
    database: duckdb.DuckDBPyConnection, memory_bytes: int, threads: int, spill: Path
) -> duckdb.DuckDBPyConnection:
    con, folder = database.cursor(), str(spill).replace("'", "''")
    for setting in (
        f"memory_limit = '{memory_bytes}B'", f"threads = {threads}", f"temp_directory = '{folder}'",
        "preserve_insertion_order = true", "enable_progress_bar = false",
    ):  # fmt: skip
        con.execute(f"SET {setting}")
    weakref.finalize(con, _take_back, database).atexit = False
    return con


def _take_back(database: duckdb.DuckDBPyConnection) -> None:
    if len(_idle) < _MOST_IDLE:
        _idle.append(database)
