"""Takes a reader's tables: checks them against the schema and writes them as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import duckdb
import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.message import Text
from hermes.base.usable_cores import threads
from hermes.model.tables import TABLES, empty, lookup, schema_of
from hermes.profiles.read.query import literal
from hermes.store.cache import unwritable
from hermes.store.database import connect, lent

_QUERY_MB, _PART_OF_INPUT = 150, 0.3
"""Memory in MB for queries over a capture, and the share of its size:

520 MB of events need the first, more events more.
"""
_SMALL_BYTES = 4 << 20
"""Below this size in bytes, opening databases takes up to a third of the time of reading the capture."""


class Sink:
    """Takes the tables of one capture of one rank into `folder`, one Parquet file per table.

    A column of the schema that a frame lacks is filled with null if the schema allows null there; every frame gets its
    `rank`. `scratch` is a folder for temporary files; the creator of the sink deletes it. Captures that are `small`
    share databases, which keep their memory.
    """

    def __init__(self, folder: Path, rank: int, *, small: bool = False) -> None:
        self.folder = folder
        self.rank = rank
        self._small = small
        self.notes: list[Diagnostic] = []
        self._query_mb = _QUERY_MB
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)

    def note(
        self,
        level: Literal["info", "degraded"],
        message: Text,
        *,
        where: str = "",
        lost: Text = "",
        hint: Text = "",
    ) -> None:
        """Record a note about the input for the report."""
        self.notes.append(Diagnostic(level=level, message=message, where=where, lost=lost, hint=hint))

    def expect(self, input_bytes: int) -> None:
        """Allow queries more memory for an input of this size as text: they hold a row for each launch."""
        self._query_mb = max(_QUERY_MB, round(_PART_OF_INPUT * input_bytes / 1e6))

    def connect(self, memory_mb: int = 0) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with bounded memory that spills into `scratch` and touches no network."""
        memory_bytes = (memory_mb or self._query_mb) * 1_000_000
        opened = lent if self._small else connect
        return opened(memory_bytes=memory_bytes, threads=min(threads(), 2), spill=self.scratch / "spill")

    def another(self, name: str = "") -> Sink:
        """A sink for a part of the capture, with notes of its own; with a name, its tables are written to `scratch`."""
        return Sink(self.scratch / name if name else self.folder, self.rank, small=self._small)

    def frame(self, name: str, rows: pl.DataFrame) -> None:
        """Write a table from a frame; raises `ValueError` for a wrong type or a forbidden null."""
        table = lookup(TABLES, name)
        wanted = schema_of(table)
        rows = rows.with_columns(pl.lit(self.rank, dtype=pl.Int64).alias("rank"))
        unknown = set(rows.columns) - set(wanted)
        if unknown:
            raise ValueError(f"table {name} has no columns {sorted(unknown)}")
        absent = [
            pl.lit(None, dtype=kind).alias(column) for column, kind in wanted.items() if column not in rows.columns
        ]
        rows = rows.with_columns(absent).select(
            pl.col(column).cast(kind, strict=True) for column, kind in wanted.items()
        )
        _refuse_nulls(name, rows)
        self._write(name, rows)

    def sql(self, con: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
        """Write a table from a query, streamed; DuckDB makes the same checks as `frame`."""
        table = lookup(TABLES, name)
        given = {row[0] for row in con.execute(f"DESCRIBE {query}").fetchall()}
        unknown = given - set(table.names)
        if unknown:
            raise ValueError(f"table {name} has no columns {sorted(unknown)}")
        picked = ", ".join(
            f'{self.rank}::BIGINT AS "rank"' if column.name == "rank"
            else f'"{column.name}"::{column.sql_type} AS "{column.name}"' if column.name in given
            else f'NULL::{column.sql_type} AS "{column.name}"'
            for column in table.columns
        )  # fmt: skip
        path = self._path(name)
        con.execute(f"COPY (SELECT {picked} FROM ({query})) TO {literal(path)} (FORMAT parquet, COMPRESSION zstd)")
        required = [column.name for column in table.columns if not column.null]
        nulls = pl.scan_parquet(path).select(pl.col(column).null_count() for column in required).collect()
        _refuse(name, nulls)

    def fill(self) -> None:
        """Write every table that the reader left out as an empty one."""
        for name, table in TABLES.items():
            if not self._path(name).exists():
                self._write(name, empty(table))

    def _write(self, name: str, rows: pl.DataFrame) -> None:
        try:
            # Zstd would halve the file, and take 50 MB more while the largest tables are written.
            rows.write_parquet(self._path(name), compression="lz4", row_group_size=1 << 16)
        except pl.exceptions.ComputeError as refused:
            # With this error Polars reports a full disk; the content of the frame was checked before.
            raise unwritable(self.folder, str(refused)[:160]) from refused

    def read(self, name: str) -> pl.DataFrame:
        """A table written before; an empty table if it was not written."""
        path = self._path(name)
        return pl.read_parquet(path) if path.exists() else empty(lookup(TABLES, name))

    def rows(self, name: str) -> int:
        """The number of rows of a table written before; 0 if it was not written."""
        path = self._path(name)
        return int(pl.scan_parquet(path).select(pl.len()).collect().item()) if path.exists() else 0

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"


def _refuse_nulls(name: str, rows: pl.DataFrame) -> None:
    required = [column.name for column in TABLES[name].columns if not column.null]
    _refuse(name, rows.select(pl.col(column).null_count() for column in required))


def _refuse(name: str, nulls: pl.DataFrame) -> None:
    bad = [column for column in nulls.columns if nulls.height and nulls[column][0]]
    if bad:
        raise ValueError(f"table {name}: null in {', '.join(bad)}, which the schema forbids")


def is_small(files: Sequence[Path]) -> bool:
    """Whether opening databases takes much of the time of reading the capture."""
    try:
        return sum(path.stat().st_size for path in files) <= _SMALL_BYTES
    except OSError:
        # A file is gone meanwhile: its reader reports that.
        return False
