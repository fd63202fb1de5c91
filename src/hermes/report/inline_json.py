"""Makes the data that a one-file report holds for its script: tables and charts as JSON that is safe inside HTML."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from hermes.base.say import say
from hermes.model.compute_measures import ChipUsed, OperatorCost
from hermes.model.report import Report
from hermes.report import chinese_sentences, shared_assets
from hermes.report.charts import StepChart
from hermes.report.format import harmless_line
from hermes.report.json_values import row_document
from hermes.report.measures_json import blocks
from hermes.report.table_cells import LIMIT, Cell, Table

# JSON never needs these three characters unescaped; a line separator is no line break in a script.
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_OPERATORS = 500
_OF_ROOFLINE = ("operator", "shapes", "flops", "bytes", "tflops", "total_ms", "bound")


Tell = Callable[[str], str]


def inlined(report: Report, tables: Sequence[Table], split: StepChart, path: StepChart, language: str = "en") -> str:
    """The text of the page's element `data`: tables with their formatted cells, and the charts' values."""
    tell, name = (chinese_sentences.labelled, chinese_sentences.name_in_chinese) if language == "zh" else (str, str)
    keys = {table.key for table in tables}
    held: dict[str, object] = {
        "language": language,
        "words": shared_assets.words(language),
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
    """A table as JSON for the script of a page."""
    return {
        "columns": [
            [tell(heading.title), heading.unit, _kind(heading.words, [row[at] for row in table.rows])]
            for at, heading in enumerate(table.headings)
        ],
        "rows": [[_cell(cell, tell, name) for cell in row] for row in table.rows],
        "about": " ".join(filter(None, (tell(table.about), say(table.beyond, language) if table.beyond else ""))),
    }


def _kind(words: bool, cells: Sequence[Cell]) -> str:
    """The kind of a column: numbers, names from a profile, or words of the report."""
    return ("text" if any(cell.kind == "name" for cell in cells) else "words") if words else "real"


def _cell(cell: Cell, tell: Tell, name: Tell) -> object:
    """A cell as JSON: words unchanged; for a number its text, its exact value if different, and its note."""
    text, note = harmless_line(cell.text), harmless_line(cell.note)
    if cell.kind == "absent":
        return [tell(text), None]
    if cell.href:
        return [name(text), "", "", cell.href]
    if cell.kind != "number":
        return name(text) if cell.kind == "name" else tell(text)
    value = "" if cell.value == cell.text else cell.value
    return [text, value, note] if note else [text, value] if value else [text]


def _chart(chart: StepChart, tell: Tell) -> dict[str, object]:
    return {
        "longest": chart.longest_ns,
        "bars": [
            {
                "window": bar.window_ns,
                "parts": [[part.kind, tell(harmless_line(part.name)), part.ns] for part in bar.segments],
            }
            for bar in chart.bars
        ],
    }


def _compute(report: Report) -> dict[str, object]:
    """The operators that a roofline shows: operators with known work, bytes and rate."""
    rows = [
        {name: value for name, value in row_document(row).items() if name in _OF_ROOFLINE}
        for row in report.rows(OperatorCost)[:_OPERATORS]
        if row.flops and row.bytes and row.tflops
    ]
    chips = [row_document(row) for row in report.rows(ChipUsed)]
    made: dict[str, object] = _harmless({"operators": rows, "chips": chips if rows else []})
    return made


def _harmless(value: Any) -> Any:
    """The same JSON value with every text made harmless for the page."""
    if isinstance(value, str):
        return harmless_line(value)
    if isinstance(value, dict):
        return {name: _harmless(one) for name, one in value.items()}
    return [_harmless(one) for one in value] if isinstance(value, list) else value
