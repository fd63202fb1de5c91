"""Builds the document that `hermes detect` prints for a step log."""

from __future__ import annotations

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, sentence
from hermes.jobs.alarms_in_step_log import Detection, ExplainedAlarm
from hermes.jobs.detect import messages
from hermes.jobs.detect.alarm_findings import of_alarm, of_cause
from hermes.jobs.detect.straggler import untold
from hermes.model.document import Column, Document, DocumentInput, Table
from hermes.model.finding import Finding

SCHEMA = "hermes.detection/1"

RANKS = sentence("jobs.table_ranks")
"""The title of the table of ranks."""

RANK = sentence("jobs.column_rank")
"""The title of the column with the rank."""

STEPS = sentence("jobs.column_steps")
"""The title of the column with the number of steps."""

DAMAGED = sentence("jobs.column_damaged")
"""The title of the column with the number of damaged records."""


def document(found: Detection) -> Document:
    """The document: alarms in the order of their steps, then wrong numbers, then causes that cost time throughout."""
    count = len(found.alarms) + len(found.wrong)
    steps = messages.steps_of(n=sum(map(len, found.ranks)), ranks=[one.rank for one in found.ranks])
    return Document(
        schema=SCHEMA,
        inputs=(DocumentInput(path=str(found.path), role="log", facts={"preset": found.preset}),),
        answer=messages.alarms(n=count, steps=steps) if count else messages.no_alarm(steps=steps),
        coverage=_coverage(found),
        findings=(
            *map(_alarm, found.alarms), *(one.finding() for one in found.wrong), *map(of_cause, found.causes)
        ),
        parts=(_ranks(found),),
    )  # fmt: skip


def _coverage(found: Detection) -> tuple[Diagnostic, ...]:
    """Notes on unreadable records, and on stragglers that the log cannot show."""
    damaged = [
        Diagnostic(level="degraded", message=messages.damaged(n=one.damaged, rank=one.rank), lost=messages.LOST_RECORDS)
        for one in found.ranks
        if one.damaged
    ]
    why = untold(found.ranks)
    return (
        *damaged, *([Diagnostic(level="degraded", message=why, lost=messages.LOST_STRAGGLER)] if why else [])
    )  # fmt: skip


def _alarm(one: ExplainedAlarm) -> Finding:
    return of_alarm(one.alarm, one.cause, one.ranks or (one.alarm.rank,), one.over, one.lost)


def _ranks(found: Detection) -> Table:
    titles: tuple[tuple[str, Message], ...] = (("rank", RANK), ("steps", STEPS), ("damaged", DAMAGED))
    return Table(
        key="ranks", title=RANKS, columns=tuple(Column(key=key, title=title, kind="count") for key, title in titles),
        rows=[(one.rank, len(one), one.damaged) for one in found.ranks],
    )  # fmt: skip
