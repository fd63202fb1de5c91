"""Checks the step marks of a rank in any format: missing marks, marks of no length, marks that overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.model.tables.unmarked_steps import FOUND, WHOLE
from hermes.profiles import messages

_SHOWN = 4
# Doubles keep microseconds since 1970 to a quarter of a microsecond: rounding can make adjacent marks seem to overlap.
_SLACK_NS = 1_000


def step_doubts(where: str, step: pl.DataFrame, kernel: pl.DataFrame, *, starts: bool = False) -> list[Diagnostic]:
    """Notes on doubtful rows of the table `step` of one rank; none if its marks are as a profiler writes them.

    `starts`: the profiler starts the job, so the job has no object of the profiler that could mark a step.
    """
    notes = []
    mark = messages.DO_STEP_BY_FRAMEWORK if starts else messages.DO_STEP
    if not step.height or step["name"].to_list() == [WHOLE]:
        numbered = kernel["step"].null_count() < kernel.height
        notes.append(
            _doubt(
                where,
                messages.NO_STEP_KERNELS if numbered else messages.NO_STEP_WHOLE,
                messages.LOST_HOST_BY_STEPS if numbered else messages.LOST_SPLIT_BY_STEPS,
                messages.DO_STEP_AND_TRACE if numbered and not starts else mark,
            )
        )
    found = step.filter(pl.col("name").str.starts_with(FOUND)).height
    if found:
        notes.append(
            Diagnostic(
                level="info",
                where=where,
                message=messages.steps_found(n=found),
                hint=messages.DO_STEP_KNOWN,
            )
        )
    short = step.filter(pl.col("dur_ns") == 0)["step"].to_list()
    if short:
        notes.append(
            _doubt(
                where,
                messages.empty_steps(steps=short),
                messages.LOST_WORK_IN_STEPS,
                messages.DO_STEP_TWICE,
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
                messages.steps_overlap(steps=overlapping),
                messages.LOST_OWNER,
                messages.DO_STEP_THREADS,
            )
        )
    return notes


def merge_notes(notes: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Merge equal notes of several ranks into one note that names the first places."""
    places: dict[Diagnostic, list[str]] = {}
    for note in notes:
        places.setdefault(dataclasses.replace(note, where=""), []).append(note.where)
    return [
        dataclasses.replace(
            note, where=", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
        )
        for note, found in places.items()
    ]


def _doubt(where: str, message: Message, lost: Message, hint: Message) -> Diagnostic:
    return Diagnostic(level="degraded", message=message, where=where, lost=lost, hint=hint)
