"""The JSON document `hermes.report/1`: the report for programs, exact and the same each time."""

from __future__ import annotations

import json
import re

from hermes.model.report import Report
from hermes.report.findings_json import finding_document, text_document
from hermes.report.json_values import clear
from hermes.report.json_values import maybe as _maybe
from hermes.report.json_values import text_of as _text
from hermes.report.json_values import texts as _texts
from hermes.report.measures_json import blocks
from hermes.report.plan_json import plan_block

SCHEMA = "hermes.report/1"

# Legal in JSON strings, but a terminal may act on them (C1 controls, bidi) and JavaScript breaks lines there.
_ESCAPED = {
    code: f"\\u{code:04x}"
    for code in (
        *range(0x7F, 0xA0),
        0x061C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFEFF,
    )
}

# The document, its blocks, and the tables in them.
_DEEPEST = len("\n  ")
# Made once: the encoder of the C library is taken where nothing is indented.
_one_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_SURROGATE = re.compile("[\ud800-\udfff]")


def document(report: Report) -> dict[str, object]:
    """The report as JSON values: milliseconds give back the nanosecond by `round(ms * 1e6)`, None is null.

    `step_trace_time` alone is in microseconds, as Ascend's own file.
    """
    measured = blocks(report)
    return {
        "schema": SCHEMA,
        "tool": {"name": "hermes", "version": _text(report.version)},
        "inputs": _inputs(report),
        "coverage": _coverage(report),
        "findings": [finding_document(row) for row in report.findings],
        "title": _text(report.title),
        "verdict": {
            "bound": _text(report.verdict.bound),
            "message": text_document(report.verdict.sentence),
            "rank": report.verdict.rank,
            "step": report.verdict.step,
        },
        **measured,
        "plan": plan_block(report.plan),
        "diagnostics": [clear(note.document()) for note in report.diagnostics],
    }


def to_json(report: Report) -> str:
    """The document as text, one row of a table a line; equal reports give equal bytes in UTF-8."""
    return text_of(document(report))


def text_of(told: dict[str, object]) -> str:
    """A report's document as text: see `to_json`."""
    return _in_lines(told).translate(_ESCAPED) + "\n"


def _in_lines(value: object, indent: str = "\n ") -> str:
    """JSON in which tables have a line a row: a thirtieth of the lines of one that is indented throughout."""
    if isinstance(value, dict) and value and len(indent) <= _DEEPEST:
        kept = [f"{_one_line(name)}: {_in_lines(held, indent + ' ')}" for name, held in value.items()]
        return "{" + indent + f",{indent}".join(kept) + indent[:-1] + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + indent + f",{indent}".join(map(_one_line, value)) + indent[:-1] + "]"
    return _one_line(value)


def _inputs(report: Report) -> list[dict[str, object]]:
    return [
        {
            "path": _text(row.path),
            "format": _text(row.format),
            "rank": row.rank,
            "capture": _text(row.capture),
            "level": _maybe(row.level),
            "chip": _maybe(row.chip),
            "vendor": _text(row.vendor),
            "degraded": _texts(row.degraded),
            "host": _maybe(row.host),
            "tp": row.tp,
            "pp": row.pp,
            "dp": row.dp,
            "cp": row.cp,
            "ep": row.ep,
        }
        for row in report.inputs
    ]


def _coverage(report: Report) -> dict[str, object]:
    coverage = report.coverage
    return {
        "ranks_seen": list(coverage.ranks_seen),
        "ranks_expected": coverage.ranks_expected,
        "ranks_expected_source": _text(coverage.ranks_expected_source),
        "steps": list(coverage.steps),
        "missing": _texts(coverage.missing),
        "files": [
            {
                "state": row.state,
                "name": _text(row.name),
                "count": row.count,
                "example": _text(row.example),
                "why": _text(row.why),
            }
            for row in coverage.files
        ],
    }
