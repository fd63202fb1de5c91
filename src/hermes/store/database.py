"""The one place where a DuckDB connection is opened: its memory is bounded, and it reaches no network."""

from __future__ import annotations

from pathlib import Path

import duckdb

from hermes.base.limits import QUERY_BYTES


def connect(
    *, memory_bytes: int | None = None, threads: int | None = None, spill: Path | None = None
) -> duckdb.DuckDBPyConnection:
    """A database in memory, with `QUERY_BYTES` unless another bound is given; it spills into a folder that is given."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_bytes or QUERY_BYTES.now()}B",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # As Polars keeps texts: nothing need be copied.
        "produce_arrow_string_view": "true",
    }
    if threads:
        settings["threads"] = threads
    settings["temp_directory"] = str(spill) if spill else ""
    con = duckdb.connect(config=settings)
    # On a slow machine it would write a bar to stdout, into the report.
    con.execute("SET enable_progress_bar = false")
    return con
