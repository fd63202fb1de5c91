"""What makes the steps of a rank doubtful, whatever the format: no marks, marks of no length, marks that overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.model.tables.unmarked_steps import FOUND, WHOLE

_SHOWN = 4
# Doubles keep microseconds since 1970 to a quarter of one: marks that touch may seem to overlap by it.
_SLACK_NS = 1_000


def step_doubts(where: str, step: pl.DataFrame, kernel: pl.DataFrame) -> list[Diagnostic]:
    """Notes on the table `step` of one rank; none when its marks are what a profiler writes."""
    notes = []
    if not step.height or step["name"].to_list() == [WHOLE]:
        numbered = kernel["step"].null_count() < kernel.height
        notes.append(
            _doubt(
                where,
                "no step was marked, so steps are what the kernels' own file says"
                if numbered
                else "no step was marked, so the capture is taken as a whole",
                "the host's part of each step, and communication by steps" if numbered else "the split by steps",
                "call prof.step() once each iteration, and keep trace_view.json"
                if numbered
                else "call prof.step() once each iteration",
            )
        )
    found = step.filter(pl.col("name").str.starts_with(FOUND)).height
    if found:
        notes.append(
            Diagnostic(
                level="info",
                where=where,
                message=f"no step was marked; {found} steps were found by the period of what was launched",
                hint="call prof.step() once each iteration, so that steps are known",
            )
        )
    short = step.filter(pl.col("dur_ns") == 0)["step"].to_list()
    if short:
        notes.append(
            _doubt(
                where,
                f"steps of no length are marked: {_listed(short)}",
                "what ran in these steps",
                "was prof.step() called twice in a row?",
            )
        )
    marks = step.sort("start_ns").with_columns(
        (pl.col("start_ns") + pl.col("dur_ns")).cum_max().shift(1).alias("before_ns")
    )
    overlapping = marks.filter(pl.col("start_ns") + _SLACK_NS < pl.col("before_ns"))["step"].to_list()
    if overlapping:
        notes.append(
            _doubt(
                where,
                f"marks of steps overlap: {_listed(overlapping)} begin before another ends",
                "which of them owns the work: it is counted with the later one",
                "was prof.step() called from two threads?",
            )
        )
    return notes


def merged(notes: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Notes of several ranks that say the same, as one note that names the first of the places."""
    places: dict[Diagnostic, list[str]] = {}
    for note in notes:
        places.setdefault(dataclasses.replace(note, where=""), []).append(note.where)
    return [
        dataclasses.replace(
            note, where=", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        )
        for note, found in places.items()
    ]


def _doubt(where: str, message: str, lost: str, hint: str) -> Diagnostic:
    return Diagnostic(level="degraded", message=message, where=where, lost=lost, hint=hint)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:_SHOWN])) + (
        f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    )
