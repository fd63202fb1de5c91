"""The cached tables of one capture of one rank, read as far as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.model.tables import TABLES, empty


@dataclass(frozen=True, slots=True, kw_only=True)
class RankData:
    """The tables of one capture of one rank, and what was noted when it was read."""

    rank: int
    root: Path
    format: str
    folder: Path
    notes: tuple[Diagnostic, ...]
    files: tuple[Path, ...] = ()
    cache: Path | None = None
    """Where what is worked out of the tables may be kept; None: nowhere."""

    url: str = ""
    """What to name to the user where the files were fetched from elsewhere."""
    reading: object = None
    """How to read the files again, on a machine that has not the tables; `load.present` knows."""

    @property
    def place(self) -> str:
        """What to name to the user: the file where there is one only, else the folder."""
        return self.url or str(self.files[0] if len(self.files) == 1 else self.root)

    @property
    def key(self) -> str:
        """What tells these tables from all others: the fingerprint of their files, under which the cache keeps them."""
        return self.folder.name

    def table(self, name: str, *columns: str) -> pl.DataFrame:
        """A table of this rank, or some columns of it."""
        path = self.folder / f"{name}.parquet"
        chosen = list(columns) or list(TABLES[name].names)
        return pl.read_parquet(path, columns=chosen) if path.exists() else empty(TABLES[name]).select(chosen)

    def where(self, name: str, columns: Sequence[str], condition: pl.Expr) -> pl.DataFrame:
        """The rows of a table of this rank for which the condition holds."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return empty(TABLES[name]).select(columns)
        return pl.scan_parquet(path).filter(condition).select(columns).collect()

    def between(self, name: str, columns: Sequence[str], first_ns: int, last_ns: int) -> pl.DataFrame:
        """The rows of a table that overlap `[first_ns, last_ns)`; those of `flow` that end in it."""
        path = self.folder / f"{name}.parquet"
        if not path.exists():
            return empty(TABLES[name]).select(columns)
        end = pl.col("dst_ns") if name == "flow" else pl.col("start_ns") + pl.col("dur_ns")
        begin = pl.col("dst_ns") if name == "flow" else pl.col("start_ns")
        return pl.scan_parquet(path).filter((begin < last_ns) & (end >= first_ns)).select(columns).collect()
