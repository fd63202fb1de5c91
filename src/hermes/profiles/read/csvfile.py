"""Loads profiler CSV files as DuckDB relations of text: any header, multi-line cells, TABs, cut ends, illegal bytes."""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass
from pathlib import Path

import duckdb

from hermes.profiles.read import messages
from hermes.profiles.read.file_slice import slice_url
from hermes.profiles.read.query import literal, only_row
from hermes.profiles.read.table_sink import Sink

_AGAIN = "copy the file again, or profile again"


# The column takes most of a large operator_details.csv, and repeats the stacks of the trace.
_LEFT = ("Call Stack",)
# Columns of numbers: casts trim them and turn N/A into null, so that no cell need be inspected twice.
_NUMBERS = re.compile(
    r"\((MB|KB|%)\)$|Duration.*\(us\)$|^Wait Time\(us\)$|^ai(c|v|core)_|^(Task|Stream|Model|Context) ID$|Block Dim$"
)
# A cell with nothing to trim at either end.
_TRIMMED = r"""'(?s)[^ \t\r\n"](.*[^ \t\r\n"])?'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Csv:
    """One CSV file, loaded into the temporary table `relation`; all columns are text, absent values null.

    Cells have no TABs, spaces and quotes around them; empty cells and `N/A` are null. Cells of columns that hold
    numbers by their names stay as written: `whole`, `real`, `size` and `ns_sql` convert them.
    """

    path: Path
    relation: str
    columns: tuple[str, ...]
    rows: int

    def pick(self, *names: str) -> str:
        """SQL for the first of these columns that the file has, else a null text."""
        for name in names:
            if name in self.columns:
                return '"' + name.replace('"', '""') + '"'
        return "NULL::VARCHAR"

    def has(self, *names: str) -> bool:
        """Whether the file has all these columns."""
        return all(name in self.columns for name in names)


def load(con: duckdb.DuckDBPyConnection, path: Path, relation: str, sink: Sink) -> Csv | None:
    """Load a CSV file; None with a degraded note if nothing can be read from it.

    A row shorter than the header (a file cut off) is kept with nulls at its end: code that needs those cells counts it.
    """
    plain = _as_utf8(path, sink.scratch / f"{relation}.utf8.csv", sink)
    columns = _header(plain, path, sink)
    if columns is None:
        return None
    try:
        _load(con, plain, relation, columns)
    except duckdb.Error as refused:
        why = str(refused).splitlines()[0][:120]
        if not _load_leniently(con, plain, relation, columns, sink):
            sink.note("degraded", messages.no_legal_csv(why=why), where=str(path), lost=messages.LOST_FILE, hint=_AGAIN)
            return None
        sink.note(
            "degraded", messages.no_legal_csv(why=why), where=str(path), hint=_AGAIN,
            lost=messages.LOST_ILLEGAL,
        )  # fmt: skip
    rows = int(only_row(con, f"SELECT count(*) FROM {relation}")[0])
    if not rows:
        sink.note(
            "degraded", messages.ONLY_HEADER, where=str(path), lost=messages.LOST_ITS_TABLE, hint=messages.DO_AGAIN
        )
    elif _cut(plain):
        sink.note(
            "degraded",
            messages.CUT_LINE,
            where=f"{path}, last line",
            lost=messages.LOST_LINE_END,
            hint=messages.DO_KILLED_PROFILER,
        )
    kept = tuple(column for column in columns if column not in _LEFT)
    return Csv(path=path, relation=relation, columns=kept, rows=rows)


def size(column: str, factor: int) -> str:
    """SQL for bytes of a cell in units of `factor` bytes, rounded, as BIGINT; null if it is no number.

    The value passes through a double: sizes below 2^53 bytes are exact. Times must not be read with this function.
    """
    return f"TRY_CAST(round(TRY_CAST({column} AS DOUBLE) * {factor}) AS BIGINT)"


def whole(column: str) -> str:
    """SQL for a cell as BIGINT; null if it is no whole number."""
    return f"TRY_CAST({column} AS BIGINT)"


def real(column: str) -> str:
    """SQL for a cell as DOUBLE; null if it is no finite number. Times must not be read with this function."""
    cast = f"TRY_CAST({column} AS DOUBLE)"
    return f"CASE WHEN isfinite({cast}) THEN {cast} END"


def _as_utf8(path: Path, copy: Path, sink: Sink) -> Path:
    """The file itself, or a UTF-8 copy of a file that a spreadsheet saved as "Unicode"."""
    with path.open("rb") as raw:
        if raw.read(2) not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return path
    with (
        path.open(encoding="utf-16", errors="replace", newline="") as text,
        copy.open("w", encoding="utf-8", newline="") as out,
    ):
        while block := text.read(1 << 20):
            out.write(block)
    sink.note("info", messages.UTF16, where=str(path))
    return copy


def _load_leniently(con: duckdb.DuckDBPyConnection, path: Path, relation: str, columns: list[str], sink: Sink) -> bool:
    plain = sink.scratch / f"{relation}.csv"
    with path.open("rb") as raw, plain.open("w", encoding="utf-8", newline="") as copy:
        while block := raw.readline(1 << 24):
            copy.write(block.replace(b"\x00", b"").decode("utf-8", "replace"))
    try:
        _load(con, plain, relation, columns, lenient=True)
    except duckdb.Error:
        return False
    return True


def _header(plain: Path, path: Path, sink: Sink) -> list[str] | None:
    with plain.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        try:
            first = next(csv.reader([text.readline(1 << 20)]), [])
        except csv.Error:
            first = []
    names: list[str] = []
    seen: set[str] = set()
    for name in (cell.strip() for cell in first):
        # SQL cannot hold two names that differ in case alone.
        while not name or name.lower() in seen:
            name = f"{name} {len(names)}"
        seen.add(name.lower())
        names.append(name)
    if not any(first):
        sink.note("degraded", messages.NO_HEADER, where=f"{path}, line 1", lost=messages.LOST_FILE, hint=_AGAIN)
        return None
    return names


def _load(
    con: duckdb.DuckDBPyConnection, path: Path, relation: str, columns: list[str], *, lenient: bool = False
) -> None:
    listed = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in columns)
    options = ", strict_mode=false, ignore_errors=true" if lenient else ""
    cells = {name: '"' + name.replace('"', '""') + '"' for name in columns if name not in _LEFT}
    kept = ", ".join(cell if _NUMBERS.search(name) else _clean(cell) for name, cell in cells.items()) or "*"
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE {relation} AS SELECT {kept} "
        f"FROM read_csv('{slice_url(con, path)}', header=true, auto_detect=false, delim=',', quote='\"', escape='\"', "
        f"null_padding=true, parallel=false, max_line_size=16000000, columns={{{listed}}}{options})"
    )


def _clean(column: str) -> str:
    # Hardly any cell needs trimming, and checking both ends of a cell takes two thirds of the time of trimming it.
    trimmed = (
        f"CASE WHEN regexp_full_match({column}, {_TRIMMED}) THEN {column} ELSE trim({column}, E' \\t\\r\\n\"') END"
    )
    return f"nullif(nullif({trimmed}, ''), 'N/A') AS {column}"


def _cut(path: Path) -> bool:
    with path.open("rb") as raw:
        raw.seek(max(0, path.stat().st_size - 1))
        return raw.read(1) not in (b"\n", b"\r", b"")
