"""What the replay of a step log says, as a document."""

from __future__ import annotations

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, sentence
from hermes.jobs.alarms_in_step_log import Detection, Explained
from hermes.jobs.detect import messages
from hermes.jobs.detect.findings import of_alarm, of_cause
from hermes.model.document import Column, Document, Source, Table
from hermes.model.finding import Finding

SCHEMA = "hermes.detection/1"

RANKS = sentence("jobs.table_ranks")
"""The title of the table of ranks."""

RANK = sentence("jobs.column_rank")
"""The title of a column."""

STEPS = sentence("jobs.column_steps")
"""The title of a column."""

DAMAGED = sentence("jobs.column_damaged")
"""The title of a column."""


def document(found: Detection) -> Document:
    """The alarms in the order of their steps, then wrong numbers, then what costs time throughout."""
    count = len(found.alarms) + len(found.wrong)
    steps = messages.steps_of(n=sum(map(len, found.ranks)), ranks=[one.rank for one in found.ranks])
    return Document(
        schema=SCHEMA,
        inputs=(Source(path=str(found.path), role="log", facts={"preset": found.preset}),),
        answer=messages.alarms(n=count, steps=steps) if count else messages.no_alarm(steps=steps),
        coverage=tuple(
            Diagnostic(
                level="degraded", message=messages.damaged(n=one.damaged, rank=one.rank), lost=messages.LOST_RECORDS
            )
            for one in found.ranks
            if one.damaged
        ),
        findings=(
            *map(_alarm, found.alarms), *(one.finding() for one in found.wrong), *map(of_cause, found.causes)
        ),
        parts=(_ranks(found),),
    )  # fmt: skip


def _alarm(one: Explained) -> Finding:
    return of_alarm(one.alarm, one.cause, one.ranks or (one.alarm.rank,), one.over)


def _ranks(found: Detection) -> Table:
    titles: tuple[tuple[str, Message], ...] = (("rank", RANK), ("steps", STEPS), ("damaged", DAMAGED))
    return Table(
        key="ranks", title=RANKS, columns=tuple(Column(key=key, title=title, kind="count") for key, title in titles),
        rows=[(one.rank, len(one), one.damaged) for one in found.ranks],
    )  # fmt: skip
