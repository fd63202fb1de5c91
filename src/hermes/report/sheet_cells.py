"""Makes cells and names of spreadsheet sheets valid."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hermes.base.xlsx import Cell
from hermes.report.json_values import finite

_FORBIDDEN = re.compile(r"[\[\]:*?/\\']")
_LONGEST_NAME = 31


def sheet_name(title: str, taken: Mapping[str, object]) -> str:
    """The title as a sheet name that no other sheet of the workbook has yet."""
    bare = _FORBIDDEN.sub(" ", title)[:_LONGEST_NAME].strip() or "-"
    names = {name.lower() for name in taken}
    made, at = bare, 2
    while made.lower() in names:
        made = f"{bare[: _LONGEST_NAME - len(str(at)) - 1]} {at}"
        at += 1
    return made


def cell(value: Any) -> Cell:
    """A JSON value as a spreadsheet cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, int):
        # A spreadsheet keeps 15 digits, and a moment in nanoseconds has more.
        return value if abs(value) < 10**15 else str(value)
    plain = isinstance(value, list) and not any(isinstance(one, (list, dict)) for one in value)
    return ", ".join(map(str, value)) if plain else json.dumps(value, ensure_ascii=False)
