"""Writes the measures of a report as blocks of `hermes.report/1`, each at the path that its declaration names."""

from __future__ import annotations

from hermes.model.comm_measures import CommunicationNote
from hermes.model.compute_measures import StepCompute
from hermes.model.declare import Declared, declared
from hermes.model.job import JobMeasures, Rows
from hermes.model.report import Report
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import RankMatrix, Spread
from hermes.report.findings_json import text_documents
from hermes.report.json_values import row_document


def blocks(report: Report) -> dict[str, object]:
    """The block of every declared measure: where nothing was measured, a list is empty and a single row null."""
    made: dict[str, object] = {
        "step_trace_time": {"unit": "us", "notes": text_documents(report.ascend_notes)},
        "communication": {"notes": text_documents(note.text for note in report.rows(CommunicationNote))},
    }
    for about in declared().values():
        *above, last = about.path.split(".")
        place = made
        for name in above:
            place = place.setdefault(name, {})  # type: ignore[assignment]
        place[last] = block(report.measures, about)
    return made


def block(measures: JobMeasures, about: Declared) -> object:
    """The rows of one kind as JSON values."""
    rows: Rows[object] = measures.rows(about.row)
    if about.row is StepSplit:
        mfu = {(row.rank, row.step): row.mfu for row in measures.rows(StepCompute)}
        return [row_document(row) | {"mfu": mfu.get((row.rank, row.step))} for row in measures.rows(StepSplit)]
    if about.row is RankMatrix:
        matrix = measures.rows(RankMatrix).only
        return None if matrix is None else _matrix(matrix)
    if about.one:
        return None if rows.only is None else row_document(rows.only)
    return [row_document(row) for row in rows[: about.most]]


def _matrix(matrix: RankMatrix) -> dict[str, object]:
    """The rank matrix as JSON: the values of a metric have its unit, and durations are milliseconds."""
    units = [metric.unit for metric in matrix.metrics]
    return {
        "ranks_per_row": matrix.ranks_per_row,
        "metrics": [
            {"name": metric.name, "unit": "ms" if metric.unit == "ns" else metric.unit}
            | _spread(metric.spread, metric.unit)
            for metric in matrix.metrics
        ],
        "rows": [
            {
                "first_rank": row.first_rank,
                "last_rank": row.last_rank,
                "ranks": row.ranks,
                "cells": [
                    None if cell is None else _spread(cell, unit) for cell, unit in zip(row.cells, units, strict=True)
                ],
            }
            for row in matrix.rows
        ],
    }


def _spread(spread: Spread, unit: str) -> dict[str, object]:
    scale = 1_000_000 if unit == "ns" else 1
    values = row_document(spread)
    return values | {name: getattr(spread, name) / scale for name in ("least", "median", "most")}
