"""Reads the cached tables of one capture of one rank, as far as a caller asks for tables and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.model.tables import TABLES, empty


@dataclass(frozen=True, slots=True, kw_only=True)
class RankData:
    """The cached tables of one capture of one rank, and the notes made when the capture was read."""

    rank: int
    root: Path
    format: str
    folder: Path
    notes: tuple[Diagnostic, ...]
    files: tuple[Path, ...] = ()
    cache: Path | None = None
    """The folder in which results computed from the tables may be stored; None: nowhere."""

    url: str = ""
    """The URL to show to the user if the files were fetched from elsewhere."""
    reading: object = None
    """How to read the files again, on a machine without the tables; `load.present` uses it."""

    @property
    def place(self) -> str:
        """The path to show to the user: the file if there is only one, else the folder."""
        return self.url or str(self.files[0] if len(self.files) == 1 else self.root)

    @property
    def key(self) -> str:
        """The fingerprint of the files, under which the cache stores the tables."""
        return self.folder.name

    def table(self, name: str, *columns: str) -> pl.DataFrame:
        """A table of this rank, or some columns of it."""
        path = self.folder / f"{name}.parquet"
        chosen = list(columns) or list(TABLES[name].names)
        return pl.read_parquet(path, columns=chosen) if path.exists() else empty(TABLES[name]).select(chosen)

    def scan(self, name: str) -> pl.LazyFrame:
        """A table of this rank, of which only what a query asks for is read."""
        path = self.folder / f"{name}.parquet"
        return pl.scan_parquet(path) if path.exists() else empty(TABLES[name]).lazy()

    def holds(self, name: str, condition: pl.Expr) -> bool:
        """Whether any row of a table meets the condition; reads no further than the first such row."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return False
        found = pl.scan_parquet(path).filter(condition).select("rank").head(1)
        return found.collect(engine="streaming").height > 0

    def where(self, name: str, columns: Sequence[str], condition: pl.Expr) -> pl.DataFrame:
        """The rows of a table of this rank for which the condition holds."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return empty(TABLES[name]).select(columns)
        return pl.scan_parquet(path).filter(condition).select(columns).collect()

    def between(self, name: str, columns: Sequence[str], first_ns: int, last_ns: int) -> pl.DataFrame:
        """The rows of a table that overlap `[first_ns, last_ns)`; of `flow`, the rows that end in this interval."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return empty(TABLES[name]).select(columns)
        end = pl.col("dst_ns") if name == "flow" else pl.col("start_ns") + pl.col("dur_ns")
        begin = pl.col("dst_ns") if name == "flow" else pl.col("start_ns")
        return pl.scan_parquet(path).filter((begin < last_ns) & (end >= first_ns)).select(columns).collect()
