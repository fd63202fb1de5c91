"""Opens one SQLite database of a profiler without leaving a trace beside it, and reads columns as the requested types.

Traps: a `-wal` that holds rows (the file is copied first) or is empty (the file is opened as immutable). Paths with
`?`, `#` and `%`. Times stored as text, and text that is not UTF-8. Columns whose type changes from row to row, which
the ADBC driver would guess from the first rows. A file cut short, or a damaged page in the middle.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as sqlite
import polars as pl
import pyarrow as pa

from hermes.base.errors import TraceFormatError
from hermes.base.failure_message import MessageError, quoted, reason
from hermes.profiles.read import messages
from hermes.profiles.read import refusal_messages as refusals
from hermes.profiles.read.query import literal
from hermes.profiles.read.table_sink import Sink

Kind = Literal["int", "text", "real"]

MAGIC = b"SQLite format 3\x00"
TYPES: dict[Kind, pl.DataType] = {"int": pl.Int64(), "text": pl.String(), "real": pl.Float64()}

_HEAD_BYTES = 100
# Where SQLite takes its lock for writing: the pending byte, and the reserved byte after it.
_PENDING_BYTE = 0x40000000
# The system's `struct flock`: type, whence, start, length, process.
_FLOCK = "hhqqi4x"
# Rows that were read before a damaged page are kept batch by batch.
_BATCH_ROWS = "8192"
_BIGGEST_PADDED = 1 << 40
_MIN_FREE_DISK = 256 << 20
_COPY_HINT = messages.DO_COPY_AGAIN

# Every expression has one type in all rows, whatever is stored: the driver guesses a column's type from its first rows
# and then fails on another type. A real counts as an integer only as far as a double is exact. Text that is no number
# gives null, not 0 as a plain CAST does.
_CAST: dict[Kind, str] = {
    "int": (
        "CASE typeof({c}) WHEN 'integer' THEN {c}"
        " WHEN 'text' THEN CASE WHEN CAST(CAST({c} AS INTEGER) AS TEXT) = TRIM({c})"
        " THEN CAST({c} AS INTEGER) END"
        " WHEN 'real' THEN CASE WHEN ABS({c}) <= 9007199254740992 AND {c} = CAST({c} AS INTEGER)"
        " THEN CAST({c} AS INTEGER) END END"
    ),
    # Text is read as bytes: the driver does not check that text is UTF-8, Arrow's cast does.
    "text": "COALESCE(CAST({c} AS BLOB), x'')",
    # Infinity stands for null, so that a column without a number in its first rows is still real.
    "real": (
        "COALESCE(CASE typeof({c}) WHEN 'real' THEN {c} WHEN 'integer' THEN CAST({c} AS REAL)"
        " WHEN 'text' THEN CASE WHEN {c} GLOB '*[0-9]*' AND {c} NOT GLOB '*[^-+.0-9eE]*'"
        " THEN CAST({c} AS REAL) END END, 9e999)"
    ),
}
_FAULTS = (sqlite.Error, OSError, pa.ArrowException)


class Database:
    """A profiler database open for reading; build it with `opened`."""

    def __init__(self, path: Path, connection: Any, size: int, note: Callable[..., None]) -> None:
        self.path = path
        self._connection = connection
        self._size = size
        self._note = note
        self._columns: dict[str, frozenset[str]] = {}
        # Views and virtual tables do not come from a profiler and could run without end.
        names = self._query("sqlite_master WHERE type = 'table' AND rootpage > 0", {"name": "text"})
        self._tables = frozenset(names["name"].drop_nulls().to_list())

    @property
    def tables(self) -> frozenset[str]:
        """The names of its tables."""
        return self._tables

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; empty if the file has no such table."""
        if table not in self.tables:
            return frozenset()
        if table not in self._columns:
            names = self._query(f"pragma_table_info({literal(table)})", {"name": "text"})
            self._columns[table] = frozenset(names["name"].drop_nulls().to_list())
        return self._columns[table]

    def fetch(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        """The rows of a table in file order, with exactly these columns.

        A missing column, an empty text and a value of another kind than requested are null. A damaged table gives the
        rows before the damage and leaves a note.
        """
        there = {name: kind for name, kind in columns.items() if name in self.columns(table)}
        if not there:
            return pl.DataFrame(schema={name: TYPES[kind] for name, kind in columns.items()})
        frame = self._query(f"{_quoted(table)} NOT INDEXED", there, table)
        absent = [pl.lit(None, dtype=TYPES[kind]).alias(name) for name, kind in columns.items() if name not in there]
        return frame.with_columns(absent).select(list(columns))

    def _query(self, source: str, columns: Mapping[str, Kind], table: str = "") -> pl.DataFrame:
        cells = ", ".join(_CAST[kind].format(c=_quoted(name)) for name, kind in columns.items())
        batches: list[pa.RecordBatch] = []
        rows = 0
        try:
            with self._connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": _BATCH_ROWS})
                cursor.execute(f"SELECT {cells} FROM {source}")
                for batch in cursor.fetch_record_batch():
                    batches.append(batch)
                    rows += batch.num_rows
                    if rows > self._size:
                        # A row takes more than a byte: more rows mean pages that point at each other in a ring.
                        raise OSError("its pages form a ring")
        except _FAULTS as broken:
            self._damaged(table, rows, broken)
        return _frame(batches, columns)

    def _damaged(self, table: str, rows: int, broken: BaseException) -> None:
        if not table:
            raise TraceFormatError(
                self.path, refusals.damaged_database(why=_short(broken)), hint=_COPY_HINT
            ) from broken
        self._note(
            "degraded",
            messages.damaged_table(table=table, why=_short(broken)),
            where=str(self.path),
            lost=messages.lost_table_after(n=rows, table=table) if rows else messages.lost_table(table=table),
            hint=_COPY_HINT,
        )


@contextmanager
def opened(path: Path, sink: Sink) -> Iterator[Database]:
    """The database at `path`, for reading only: the file stays unchanged and no file appears beside it.

    Raises `TraceFormatError` if the file is empty, no SQLite database, or damaged in its schema.
    """
    uri, size = _uri(path, sink)
    if writer := _writer(path):
        sink.note(
            "degraded", messages.being_written(process=str(writer)), where=str(path),
            lost=messages.LOST_UNWRITTEN, hint=messages.DO_WAIT_FOR_PROFILER,
        )  # fmt: skip
    with _connected(path, uri, size, sink.note) as database:
        yield database


@contextmanager
def glanced(path: Path) -> Iterator[Database]:
    """The database at `path` as it is on disk, to see which tool wrote it; changes in files beside it are not seen.

    Raises `TraceFormatError` as `opened` does; a damaged table gives the rows before the damage and no note.
    """
    if not looks_like(path):
        raise TraceFormatError(path, refusals.NO_SQLITE)
    with _connected(path, _immutable(path), _size(path), _silent) as database:
        yield database


@contextmanager
def _connected(path: Path, uri: str, size: int, note: Callable[..., None]) -> Iterator[Database]:
    try:
        connection = sqlite.connect(uri)
    except _FAULTS as broken:
        raise TraceFormatError(path, refusals.closed_database(why=_short(broken))) from broken
    try:
        yield Database(path, connection, size, note)
    finally:
        connection.close()


def _silent(*_: object, **__: object) -> None:
    """Accept a note and drop it."""


def looks_like(path: Path) -> bool:
    """Whether the file starts as an SQLite database does; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _writer(path: Path) -> int:
    """The process that holds SQLite's lock for writing, or 0; Hermes takes no lock, which could stop that process."""
    question = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, _PENDING_BYTE, 2, 0)
    try:
        with path.open("rb") as file:
            answer = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, question))
    except (OSError, struct.error):
        # The file system has no locks.
        return 0
    return int(answer[4]) if answer[0] != fcntl.F_UNLCK else 0


def unmerged(path: Path) -> tuple[Path, ...]:
    """The files beside a database that hold changes not yet in it: a `-wal` or `-journal` with content."""
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return tuple(file for file in beside if _size(file))


def _uri(path: Path, sink: Sink) -> tuple[str, int]:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as broken:
        raise TraceFormatError(path, refusals.not_read(why=quoted(text=broken.strerror or str(broken)))) from broken
    changes = unmerged(path)
    if not head and not changes:
        raise TraceFormatError(path, refusals.EMPTY_FILE, hint=refusals.DO_KILLED_BEFORE_PARSING)
    if head and not head.startswith(MAGIC):
        raise TraceFormatError(path, refusals.NO_SQLITE, hint=_COPY_HINT)
    if changes:
        copy = _copied(path, changes, sink)
        return f"file:{_escaped(copy)}?mode=rw", size + sum(_size(file) for file in changes)
    whole = _whole_size(head)
    if size < whole <= _BIGGEST_PADDED:
        return _immutable(_padded(path, size, whole, sink)), size
    return _immutable(path), size


class _NoRoomError(MessageError, OSError):
    """The disk has no room for a copy."""


def _copied(path: Path, beside: tuple[Path, ...], sink: Sink) -> Path:
    """A copy in the scratch folder, with the files beside it that belong to it."""
    need = _size(path) + sum(_size(file) for file in beside)
    try:
        if shutil.disk_usage(sink.scratch).free < need + _MIN_FREE_DISK:
            raise _NoRoomError(refusals.no_room(folder=str(sink.scratch), need=str(need)))
        folder = Path(tempfile.mkdtemp(prefix="db-", dir=sink.scratch))
        for file in (path, *beside):
            shutil.copyfile(file, folder / file.name)
    except OSError as broken:
        raise TraceFormatError(path, refusals.not_copied(why=reason(broken)), hint=refusals.DO_FREE_DISK) from broken
    return folder / path.name


def _padded(path: Path, size: int, whole: int, sink: Sink) -> Path:
    """A copy padded to the length in the header: SQLite then reads the tables before the cut."""
    copy = _copied(path, (), sink)
    try:
        os.truncate(copy, whole)
    except OSError as broken:
        raise TraceFormatError(path, refusals.cut_off(size=str(size), whole=str(whole)), hint=_COPY_HINT) from broken
    sink.note(
        "degraded",
        messages.cut_database(size=size, whole=whole),
        where=str(path),
        lost=messages.LOST_BEHIND_CUT,
        hint=_COPY_HINT,
    )
    return copy


def _whole_size(head: bytes) -> int:
    """The size in bytes that the header states, or 0 if the header states none."""
    if len(head) < _HEAD_BYTES or head[24:28] != head[92:96]:
        return 0
    page = int.from_bytes(head[16:18], "big")
    return (65_536 if page == 1 else page) * int.from_bytes(head[28:32], "big")


def _frame(batches: list[pa.RecordBatch], columns: Mapping[str, Kind]) -> pl.DataFrame:
    if not batches:
        return pl.DataFrame(schema={name: TYPES[kind] for name, kind in columns.items()})
    table = pa.Table.from_batches(batches)
    series = [_series(table.column(place), name, kind) for place, (name, kind) in enumerate(columns.items())]
    return pl.DataFrame(series)


def _series(cells: pa.ChunkedArray, name: str, kind: Kind) -> pl.Series:
    if kind == "text":
        return _texts(cells, name)
    series = pl.Series(name, pl.from_arrow(cells), dtype=TYPES[kind])
    if kind == "real":
        return _emptied(series, ~series.is_finite())
    return series


def _texts(cells: pa.ChunkedArray, name: str) -> pl.Series:
    try:
        series = pl.Series(name, pl.from_arrow(cells.cast(pa.large_string())), dtype=pl.String)
    except pa.ArrowInvalid:
        decoded = [(cell or b"").decode("utf-8", "replace") for cell in cells.to_pylist()]
        series = pl.Series(name, decoded, dtype=pl.String)
    return _emptied(series, series == "")


def _emptied(series: pl.Series, where: pl.Series) -> pl.Series:
    nothing = pl.Series(series.name, [None], dtype=series.dtype)
    return series.zip_with(~where, nothing.new_from_index(0, len(series)))


def _immutable(path: Path) -> str:
    return f"file:{_escaped(path)}?mode=ro&immutable=1"


def _escaped(path: Path) -> str:
    return quote(os.fsencode(path.absolute()))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _short(broken: BaseException) -> str:
    """SQLite's error text, without the driver's words and without the query."""
    return str(broken).split("\nquery:")[0].split(" query: ")[-1].strip()[:160]
