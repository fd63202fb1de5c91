"""The JSON document `hermes.report/1`: the report for programs, exact and the same each time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from hermes.analyze.measures import AscendSplit, RankTotal, StepPath, StepSplit, TopRow
from hermes.diagnose.finding import Finding
from hermes.report import comm_document
from hermes.report.compute_document import compute_document, mfu_of
from hermes.report.host_document import host_blocks
from hermes.report.model import Report
from hermes.report.plan_document import plan_block
from hermes.report.values import finite as _finite
from hermes.report.values import maybe as _maybe
from hermes.report.values import ms as _ms
from hermes.report.values import text_of as _text
from hermes.report.values import texts as _texts
from hermes.report.values import us as _us

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

_SURROGATE = re.compile("[\ud800-\udfff]")


def document(report: Report) -> dict[str, object]:
    """The report as JSON values: milliseconds give back the nanosecond by `round(ms * 1e6)`, None is null.

    `step_trace_time` alone is in microseconds, as Ascend's own file.
    """
    mfu = mfu_of(report.compute)
    return {
        "schema": SCHEMA,
        "tool": {"name": "hermes", "version": _text(report.version)},
        "title": _text(report.title),
        "verdict": {
            "bound": _text(report.verdict.bound),
            "sentence": _text(report.verdict.sentence),
            "rank": report.verdict.rank,
            "step": report.verdict.step,
        },
        "inputs": _inputs(report),
        "coverage": _coverage(report),
        "steps": [_step(row) | {"mfu": mfu.get((row.rank, row.step))} for row in report.steps],
        "totals": [_total(row) for row in report.totals],
        "step_trace_time": {
            "unit": "us",
            "note": _text(report.ascend_note),
            "rows": [_ascend(row) for row in report.ascend],
        },
        "critical_path": [row for path in report.paths for row in _path(path)],
        "critical_path_rivals": [row for path in report.paths for row in _rivals(path)],
        "critical_path_stretches": [row for path in report.paths[:1] for row in _stretches(path)],
        "free_time": [
            {
                "rank": row.rank,
                "step": row.step,
                "component": _text(part.component),
                "reason": _text(part.reason),
                "ms": _ms(part.ns),
                "share": _finite(part.ns / row.free_ns),
            }
            for row in report.free
            for part in row.parts
        ],
        **host_blocks(report.host),
        "compute": compute_document(report.compute, _text),
        "plan": plan_block(report.plan),
        "findings": [_finding(row) for row in report.findings],
        **_measures(report),
        **comm_document.blocks(report),
        "diagnostics": [
            {
                "level": note.level,
                "message": _text(note.message),
                "where": _text(note.where),
                "lost": _text(note.lost),
                "hint": _text(note.hint),
            }
            for note in report.diagnostics
        ],
    }


def to_json(report: Report) -> str:
    """The document as text, one line break at its end; equal reports give equal bytes in UTF-8."""
    text = json.dumps(document(report), ensure_ascii=False, allow_nan=False, indent=1)
    return text.translate(_ESCAPED) + "\n"


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
    }


def _step(row: StepSplit) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "window_kind": row.window_kind,
        "start_ns": row.start_ns,
        "window_ms": _ms(row.window_ns),
        "compute_ms": _ms(row.compute_ns),
        "comm_ms": _ms(row.comm_ns),
        "exposed_comm_ms": _ms(row.exposed_comm_ns),
        "overlapped_comm_ms": _ms(row.overlapped_comm_ns),
        "copy_ms": _ms(row.copy_ns),
        "copy_exposed_ms": _ms(row.copy_exposed_ns),
        "free_ms": _ms(row.free_ns),
        "preparing_ms": _ms(row.preparing_ns),
        "host_ms": _ms(row.host_ns),
    }


def _total(row: RankTotal) -> dict[str, object]:
    return {
        "rank": row.rank,
        "tasks": row.tasks,
        "span_ms": _ms(row.span_ns),
        "busy_ms": _ms(row.busy_ns),
        "compute_ms": _ms(row.compute_ns),
        "comm_ms": _ms(row.comm_ns),
        "exposed_comm_ms": _ms(row.exposed_comm_ns),
        "copy_ms": _ms(row.copy_ns),
        "copy_exposed_ms": _ms(row.copy_exposed_ns),
        "idle_ms": _ms(row.idle_ns),
        "task_ms": _ms(row.task_ns),
    }


def _ascend(row: AscendSplit) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "source": row.source,
        "compute_us": _us(row.compute_ns),
        "exposed_comm_us": _us(row.exposed_comm_ns),
        "overlapped_us": _us(row.overlapped_ns),
        "comm_us": _us(row.comm_ns),
        "free_us": _us(row.free_ns),
        "stage_us": _us(row.stage_ns),
        "bubble_us": _us(row.bubble_ns),
        "preparing_us": _us(row.preparing_ns),
    }


def _path(path: StepPath) -> list[dict[str, object]]:
    return [
        {
            "rank": path.rank,
            "step": path.step,
            "stretch": path.stretch,
            "across": path.across,
            "of_rank": part.rank,
            "component": _text(part.component),
            "reason": _text(part.reason),
            "ms": _ms(part.ns),
            "share": _finite(part.ns / path.window_ns),
        }
        for part in path.parts
    ]


def _rivals(path: StepPath) -> list[dict[str, object]]:
    return [
        {
            "rank": path.rank,
            "step": path.step,
            "across": path.across,
            "component": _text(row.component),
            "where": _text(row.where),
            "tasks": row.tasks,
            "ms": _ms(row.ns),
            "slack_ms": _ms(row.slack_ns),
            "least_slack_ms": _ms(row.least_ns),
        }
        for row in path.rivals
    ]


def _stretches(path: StepPath) -> list[dict[str, object]]:
    return [
        {
            "of_rank": row.rank,
            "component": _text(row.component),
            "name": _text(row.name),
            "where": _text(row.where),
            "start_ns": row.start_ns,
            "ms": _ms(row.dur_ns),
        }
        for row in path.stretches
    ]


def _finding(row: Finding) -> dict[str, object]:
    return {
        "code": _text(row.code),
        "layer": row.layer,
        "cause": _text(row.cause),
        "title": _text(row.title),
        "ranks": list(row.ranks),
        "blames": _texts(row.blames),
        "cost_ms": _ms(row.cost_ns),
        "share": _finite(row.share),
        "gain": {
            "low": _ms(row.gain.low_ns),
            "high": _ms(row.gain.high_ns),
            "unit": "ms per step",
            "method": _text(row.gain.method),
            "replayed": row.gain.replayed,
        },
        "at": None
        if row.at is None
        else {"rank": row.at.rank, "start_ns": row.at.start_ns, "ms": _ms(row.at.dur_ns), "whole_step": row.at.whole},
        "explained_by": _texts(row.explained_by),
        "confidence": _finite(row.confidence),
        "evidence": [
            {
                "what": _text(item.what),
                "value": _finite(item.value),
                "unit": _text(item.unit),
                "threshold": None if item.threshold is None else _finite(item.threshold),
                "where": _text(item.where),
            }
            for item in row.evidence
        ],
        "actions": [
            {
                "title": _text(action.title),
                "do": _text(action.do),
                "verify": _text(action.verify),
                "risk": _text(action.risk),
                "source": _text(action.source),
            }
            for action in row.actions
        ],
    }


def _measures(report: Report) -> dict[str, object]:
    return {
        "streams": [
            {
                "rank": row.rank,
                "stream": row.stream,
                "component": _text(row.component),
                "tasks": row.tasks,
                "busy_ms": _ms(row.busy_ns),
            }
            for row in report.streams
        ],
        "clocks": [
            {
                "rank": row.rank,
                "offset_ns": row.offset_ns,
                "error_ns": row.error_ns,
                "anchors": row.anchors,
                "method": row.method,
            }
            for row in report.clocks
        ],
        "waits": [
            {
                "rank": row.rank,
                "peer": row.peer,
                "peer_collected": row.peer_collected,
                "waits": row.waits,
                "total_ms": _ms(row.total_ns),
                "longest_ms": _ms(row.longest_ns),
                "longest_at_ns": row.longest_at_ns,
            }
            for row in report.waits
        ],
        "rank_waits": [
            {
                "rank": row.rank,
                "peer": row.peer,
                "peer_collected": row.peer_collected,
                "operations": row.waits,
                "total_ms": _ms(row.total_ns),
                "longest_ms": _ms(row.longest_ns),
                "longest_at_ns": row.longest_at_ns,
            }
            for row in report.rank_waits
        ],
        "links": [
            {
                "rank": row.rank,
                "transport": _text(row.transport),
                "bytes": row.bytes,
                "time_ms": _ms(row.time_ns),
                "gb_per_s": _finite(row.gb_per_s),
            }
            for row in report.links
        ],
        "top": {
            "kernels": _top(report.top.kernels),
            "operators": _top(report.top.operators),
            "host_calls": _top(report.top.host_calls),
            "communication": _top(report.top.communication),
        },
    }


def _top(rows: Iterable[TopRow]) -> list[dict[str, object]]:
    return [
        {
            "name": _text(row.name),
            "detail": _text(row.detail),
            "ranks": list(row.ranks),
            "count": row.count,
            "total_ms": _ms(row.total_ns),
            "share": _finite(row.share),
            "min_ms": _ms(row.min_ns),
            "median_ms": _ms(row.median_ns),
            "max_ms": _ms(row.max_ns),
        }
        for row in rows
    ]
