"""Writes tables as .csv and .xlsx: the table of operators, and the table of two dumps under msProbe's headings."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.sanitize_text import clean_cell
from hermes.base.xlsx import Cell, workbook
from hermes.precision import recording_notes
from hermes.precision.compare import Comparison
from hermes.precision.document import OPERATORS, cells
from hermes.precision.msprobe_columns import table


def write_columns(golden: Path, target: Path, out: Path) -> int:
    """Write the table under msProbe's headings as `.csv` or `.xlsx`; returns the number of rows.

    Raises `InputError`.
    """
    if out.suffix not in (".csv", ".xlsx"):
        raise InputError(recording_notes.TABLE_KINDS, where=str(out))
    if out.exists():
        raise InputError(recording_notes.FILE_EXISTS, where=str(out), hint=recording_notes.NEW_NAME)
    found = table(golden, target)
    out.write_bytes(csv_of(found) if out.suffix == ".csv" else workbook({"compare_result": found}))
    return len(found) - 1


def operators_table(found: Comparison) -> list[list[Cell]]:
    """The operators as rows under the keys of their columns."""
    rows = (cells(one, row) for one in found.judgements for row in one.rows)
    return [[column.key for column in OPERATORS], *([_cell(value) for value in row] for row in rows)]


def _cell(value: object) -> Cell:
    return value if value is None or type(value) in (int, float) else str(value)  # type: ignore[return-value]


def csv_of(lines: Sequence[Sequence[Cell]]) -> bytes:
    """Rows as comma-separated values."""
    out = io.StringIO()
    writer = csv.writer(out)
    for line in lines:
        writer.writerow([clean_cell(one) if isinstance(one, str) else one for one in line])
    return out.getvalue().encode()
