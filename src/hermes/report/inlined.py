"""What the report holds for its script: its tables and charts as JSON that cannot end the element it stands in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hermes.base.say import say
from hermes.model.compute_measures import ChipUsed, OperatorCost
from hermes.model.report import Report
from hermes.report import chinese, components
from hermes.report.cells import LIMIT, Cell, Table
from hermes.report.charts import StepChart
from hermes.report.format import clean
from hermes.report.json_values import row_document
from hermes.report.measures_json import blocks

# Nothing of JSON's own needs these three; a line separator is no line break in a script.
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_OPERATORS = 500
_OF_ROOFLINE = ("operator", "shapes", "flops", "bytes", "tflops", "total_ms", "bound")


Tell = Callable[[str], str]


def inlined(report: Report, tables: Sequence[Table], split: StepChart, path: StepChart, language: str = "en") -> str:
    """The text of the element `data`: tables with their cells as they are written, and the charts' own values."""
    tell, name = (chinese.labelled, chinese.named) if language == "zh" else (str, str)
    keys = {table.key for table in tables}
    held: dict[str, object] = {
        "language": language,
        "words": components.words(language),
        "written": LIMIT,
        "tables": {table.key: table_data(table, tell, name, language) for table in tables},
        "charts": {"split": _chart(split, tell), "path-chart": _chart(path, tell)},
        "document": {
            "compute": _compute(report),
            "pipeline_boxes": _harmless(blocks(report)["pipeline_boxes"]),
            "rank_matrix": blocks(report)["rank_matrix"] if "rank_matrix" in keys else None,
        },
    }
    return json.dumps(held, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(ESCAPED)


def table_data(table: Table, tell: Tell, name: Tell, language: str) -> dict[str, object]:
    """A table as the script of a page draws it."""
    return {
        "columns": [
            [tell(heading.title), heading.unit, _kind(heading.words, [row[at] for row in table.rows])]
            for at, heading in enumerate(table.headings)
        ],
        "rows": [[_cell(cell, tell, name) for cell in row] for row in table.rows],
        "about": " ".join(filter(None, (tell(table.about), say(table.beyond, language) if table.beyond else ""))),
    }


def _kind(words: bool, cells: Sequence[Cell]) -> str:
    """Numbers, names of a profile, or words of the report itself."""
    return ("text" if any(cell.kind == "name" for cell in cells) else "words") if words else "real"


def _cell(cell: Cell, tell: Tell, name: Tell) -> object:
    """Words as they are; a number as its text, its exact value where that is another, and its note; or nothing."""
    text, note = clean(cell.text), clean(cell.note)
    if cell.kind == "absent":
        return [tell(text), None]
    if cell.kind != "number":
        return name(text) if cell.kind == "name" else tell(text)
    value = "" if cell.value == cell.text else cell.value
    return [text, value, note] if note else [text, value] if value else [text]


def _chart(chart: StepChart, tell: Tell) -> dict[str, object]:
    return {
        "longest": chart.longest_ns,
        "bars": [
            {"window": bar.window_ns, "parts": [[part.kind, tell(clean(part.name)), part.ns] for part in bar.segments]}
            for bar in chart.bars
        ],
    }


def _compute(report: Report) -> dict[str, object]:
    """The operators that a roofline shows: those whose work, bytes and rate are known."""
    rows = [
        {name: value for name, value in row_document(row).items() if name in _OF_ROOFLINE}
        for row in report.measures.rows(OperatorCost)[:_OPERATORS]
        if row.flops and row.bytes and row.tflops
    ]
    chips = [row_document(row) for row in report.measures.rows(ChipUsed)]
    made: dict[str, object] = _harmless({"operators": rows, "chips": chips if rows else []})
    return made


def _harmless(value: Any) -> Any:
    """The same with every text as the page may show it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: _harmless(one) for name, one in value.items()}
    return [_harmless(one) for one in value] if isinstance(value, list) else value
