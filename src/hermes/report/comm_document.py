"""Communication and structure as JSON values: the blocks `communication`, `pipeline`, `balance` and `rank_matrix`."""

from __future__ import annotations

import math
from dataclasses import fields

from hermes.analyze.structure_measures import RankMatrix, Spread
from hermes.report.model import Report

_MOST_GROUPS = 1_024
_MOST_RANKS = 64
_MOST_ARRIVALS = 2_048
"""Rows beyond these are the least of theirs; the blocks `kinds` and `rank_matrix` cover all."""


def blocks(report: Report) -> dict[str, object]:
    """The four blocks; times are milliseconds that give back the nanosecond."""
    talk, structure = report.communication, report.structure
    line = structure.pipeline
    return {
        "communication": {
            "kinds": [_row(row) for row in talk.kinds],
            "groups": [_row(row) for row in talk.groups[:_MOST_GROUPS]],
            "fits": [_row(row) for row in talk.fits[:_MOST_GROUPS]],
            "slow_ranks": [_row(row) for row in talk.slow_ranks[:_MOST_RANKS]],
            "arrivals": [_row(row) for row in talk.arrivals[:_MOST_ARRIVALS]],
            "link_pairs": [_row(row) for row in talk.links],
            "packets": [_row(row) for row in talk.packets],
            "alignment": [_row(row) for row in talk.alignment],
            "stalls": [_row(row) for row in talk.stalls],
            "contention": [_row(row) for row in talk.contention],
            "notes": [_value(note) for note in talk.notes],
        },
        "pipeline": None if line is None else _row(line) | {"stages": [_row(stage) for stage in line.stages]},
        "balance": [_row(row) for row in structure.balances],
        "rank_matrix": None if structure.matrix is None else _matrix(structure.matrix),
    }


def _row(measure: object) -> dict[str, object]:
    """The fields of a measure; `…_ns` become `…_ms`, but for moments, which end in `_at_ns`."""
    made: dict[str, object] = {}
    for field in fields(measure):  # type: ignore[arg-type]
        value = getattr(measure, field.name)
        if field.name.endswith("_ns") and not field.name.endswith("_at_ns"):
            made[field.name.removesuffix("_ns") + "_ms"] = None if value is None else value / 1_000_000
        else:
            made[field.name] = _value(value)
    return made


def _value(value: object) -> object:
    if isinstance(value, str):
        return value if value.isprintable() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return [_value(item) for item in value] if isinstance(value, tuple) else value


def _matrix(matrix: RankMatrix) -> dict[str, object]:
    units = [metric.unit for metric in matrix.metrics]
    return {
        "ranks_per_row": matrix.ranks_per_row,
        "metrics": [
            {
                "name": metric.name,
                "unit": "ms" if metric.unit == "ns" else metric.unit,
                **_spread(metric.spread, metric.unit),
            }
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
    return {
        "ranks": spread.ranks,
        "least": spread.least / scale,
        "median": spread.median / scale,
        "most": spread.most / scale,
        "least_rank": spread.least_rank,
        "most_rank": spread.most_rank,
    }
