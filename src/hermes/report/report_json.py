"""Writes the JSON document `hermes.report/1`: the report for programs, exact and the same each time."""

from __future__ import annotations

from hermes.model.report import Report
from hermes.report.findings_json import finding_document, text_document, text_documents
from hermes.report.json_lines import dumps
from hermes.report.json_values import clear_json_values
from hermes.report.json_values import maybe as _maybe
from hermes.report.json_values import text_of as _text
from hermes.report.measures_json import blocks
from hermes.report.plan_json import plan_block

SCHEMA = "hermes.report/1"


def document(report: Report) -> dict[str, object]:
    """The report as JSON values: milliseconds give back the nanosecond by `round(ms * 1e6)`, None is null.

    The block `step_trace_time` alone is in microseconds, as in Ascend's own file.
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
            "message": text_document(report.verdict.message),
            "leaf": None if report.verdict.leaf is None else report.verdict.leaf.value,
            "share": report.verdict.share,
            "most": None if report.verdict.most is None else report.verdict.most.value,
            "most_share": report.verdict.most_share,
            "awaited": report.verdict.awaited,
            "fault": None if report.verdict.fault is None else report.verdict.fault.value,
            "rank": report.verdict.rank,
            "step": report.verdict.step,
        },
        **measured,
        "plan": plan_block(report.plan),
        "diagnostics": [clear_json_values(note.document()) for note in report.diagnostics],
    }


def to_json(report: Report) -> str:
    """The report as JSON text, one row of a table a line; equal reports give equal bytes in UTF-8."""
    return dumps(document(report))


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
            "degraded": text_documents(row.degraded),
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
        "ranks_expected_source": text_document(coverage.ranks_expected_source),
        "steps": list(coverage.steps),
        "missing": text_documents(coverage.missing),
        "files": [
            {
                "state": row.state,
                "name": _text(row.name),
                "count": row.count,
                "example": _text(row.example),
                "why": text_document(row.why),
            }
            for row in coverage.files
        ],
    }
