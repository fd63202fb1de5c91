"""From paths to cached tables, one folder of Parquet per rank."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from hermes.base.errors import Diagnostic, HermesError, InputError
from hermes.bundle.cache import Cache, Entry, unwritable
from hermes.bundle.files import Digests, fingerprint, refuse_changed, walk
from hermes.read.discover import Found, discover, reader_of
from hermes.read.sink import Sink
from hermes.tables import TABLES, empty, schema_of
from hermes.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class RankData:
    """The tables of one capture of one rank, and what was noted when it was read."""

    rank: int
    root: Path
    format: str
    folder: Path
    notes: tuple[Diagnostic, ...]
    files: tuple[Path, ...] = ()

    @property
    def place(self) -> Path:
        """What to name to the user: the file where there is one only, else the folder."""
        return self.files[0] if len(self.files) == 1 else self.root

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """All ranks that could be read, in rank order, and everything that must be said of the input."""

    paths: tuple[Path, ...]
    ranks: tuple[RankData, ...]
    notes: tuple[Diagnostic, ...]


def load(paths: Sequence[Path], cache: Cache, *, capture: str = "", digests: Digests | None = None) -> Loaded:
    """Read what is not in the cache yet; `digests` may have begun on the files. Raises `InputError` when no rank can be
    read.
    """
    if digests is None:
        with Digests() as own:
            return load(paths, cache, capture=capture, digests=own)
    files = walk(paths)
    if not files:
        where = ", ".join(map(str, paths))
        raise InputError(
            "there is no file in the folder",
            where=where,
            lost="everything",
            hint="give the folder that the profiler wrote",
        )
    found, notes = discover(files, capture=capture)
    ranks: list[RankData] = []
    failed: list[HermesError] = []
    for one in found:
        try:
            ranks.append(_rank(one, cache, digests))
        except HermesError as broken:
            failed.append(broken)
    if not ranks:
        first = failed[0]
        more = f" (and {len(failed) - 1} more like it)" if len(failed) > 1 else ""
        raise InputError(f"{first.what}{more}", where=first.where, lost=first.lost, hint=first.hint) from first
    for error in failed:
        notes.append(
            Diagnostic(
                level="degraded", message=error.what, where=error.where, lost=error.lost or "this rank", hint=error.hint
            )
        )
    # The same note about every rank is one note.
    said = dict.fromkeys([*notes, *(note for rank in ranks for note in rank.notes)])
    return Loaded(paths=tuple(paths), ranks=tuple(ranks), notes=tuple(said))


def _rank(one: Found, cache: Cache, digests: Digests) -> RankData:
    reader = reader_of(one.source)
    print_ = fingerprint(
        one.source.files, reader.name, str(reader.version), _SCHEMA, __version__, str(one.rank), one.source.capture,
        digests=digests,
    )  # fmt: skip
    entry = cache.find(print_.digest)
    if entry is None:
        with cache.making() as folder:
            sink = Sink(folder, one.rank)
            _read(one, sink, cache)
            _refuse_empty(one, sink)
            refuse_changed(print_)
            entry = cache.keep(print_.digest, folder, _manifest(one, sink))
    return RankData(
        rank=one.rank,
        root=one.source.root,
        format=one.source.format,
        folder=entry.folder,
        notes=_notes(entry),
        files=one.source.files,
    )


def _read(one: Found, sink: Sink, cache: Cache) -> None:
    try:
        reader_of(one.source).read(one.source, one.rank, sink)
        sink.fill()
    except (duckdb.IOException, duckdb.OutOfMemoryException) as refused:
        # DuckDB writes to the cache alone, and spills there what memory does not hold.
        raise unwritable(cache.root, str(refused).splitlines()[0][:160]) from refused


def _refuse_empty(one: Found, sink: Sink) -> None:
    """A capture whose files could be opened but hold no row says nothing: that is no report."""
    if not any(sink.rows(name) for name in TABLES if name not in ("rank", "setting", "group", "stack")):
        said = "; ".join(dict.fromkeys(note.message for note in sink.notes if note.level == "degraded"))
        raise InputError(
            f"there is nothing in the capture{f' ({said})' if said else ''}",
            where=", ".join(map(str, one.source.files[:4])),
            lost="this capture",
            hint="was the job killed while the profiler was writing? Profile again, or copy the whole folder again",
        )


def _manifest(one: Found, sink: Sink) -> Mapping[str, object]:
    return {
        "root": str(one.source.root),
        "format": one.source.format,
        "rank": one.rank,
        "capture": one.source.capture,
        "notes": [
            {"level": note.level, "message": note.message, "where": note.where, "lost": note.lost, "hint": note.hint}
            for note in sink.notes
        ],
    }


def _notes(entry: Entry) -> tuple[Diagnostic, ...]:
    listed = entry.manifest.get("notes")
    return tuple(Diagnostic(**note) for note in listed) if isinstance(listed, list) else ()


def _schema_digest() -> str:
    text = "\n".join(f"{table.name} {schema_of(table)}" for table in TABLES.values())
    return hashlib.sha256(text.encode()).hexdigest()


_SCHEMA = _schema_digest()
