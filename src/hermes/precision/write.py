"""Writes a comparison into a folder: HTML, JSON, CSV and, as the tutorial calls it, result.xlsx."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from hermes.base.errors import InputError
from hermes.base.foreign_text import clean_cell
from hermes.base.xlsx import workbook
from hermes.precision.columns import table
from hermes.precision.compare import Comparison
from hermes.precision.document import document
from hermes.precision.html import page


def write(found: Comparison, folder: Path) -> list[Path]:
    """All files; their paths. Raises `InputError` for a folder inside of what was compared."""
    for run in (found.golden, found.target):
        inside = run.path.resolve()
        if folder.resolve() == inside or inside in folder.resolve().parents:
            raise InputError(
                "the result would be written into a recording", where=str(folder), hint="give another folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    whole = document(found)
    rows = whole["rows"]
    assert isinstance(rows, list)
    shown = [row for row in rows if isinstance(row, dict)]
    names = list(shown[0]) if shown else ["state"]
    lines = [[_cell(row[name]) for name in names] for row in shown]
    summary = [["verdict", found.verdict], ["", found.sentence]]
    if found.first is not None:
        summary += [[name, str(getattr(found.first, name))] for name in ("operator", "module", "line", "kind", "why")]
    head: list[str | float | int] = [*names]
    files = {
        "result.json": json.dumps(whole, allow_nan=False).encode(),
        "result.csv": _csv([head, *lines]),
        "result.xlsx": workbook({"summary": summary, "operators": [names, *lines]}),
        "result.html": page(found).encode(),
    }
    written = []
    for name, content in files.items():
        path = folder / name
        path.write_bytes(content)
        written.append(path)
    return written


def write_columns(golden: Path, target: Path, out: Path) -> int:
    """The table under msProbe's headings, as `.csv` or `.xlsx`; how many rows. Raises `InputError`."""
    if out.suffix not in (".csv", ".xlsx"):
        raise InputError("the table is written as .csv or .xlsx", where=str(out))
    if out.exists():
        raise InputError("the file is there already", where=str(out), hint="give a new name: nothing is written over")
    found = table(golden, target)
    out.write_bytes(_csv(found) if out.suffix == ".csv" else workbook({"compare_result": found}))
    return len(found) - 1


def _cell(found: object) -> str | float | int:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        return found
    return "" if found is None else str(found)


def _csv(lines: list[list[str | float | int]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    for line in lines:
        writer.writerow([clean_cell(one) if isinstance(one, str) else one for one in line])
    return out.getvalue().encode()
