"""Limits the tables of a report that combine all ranks: rows are summed, and cut to the largest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.model.declare import declared
from hermes.model.job import JobMeasures
from hermes.model.step_measures import (
    ArrivalWait,
    CommunicationTop,
    HostCallTop,
    KernelTop,
    OperatorTop,
    PeerWait,
    TaskWait,
    TopRow,
)
from hermes.profiles import messages
from hermes.profiles.measure.steps.breakdown import spread

_TOP_ROWS = 500
# The most pairs of ranks whose waits are kept, longest first: pairs grow with the square of the number of ranks.
_MOST_PAIRS = 1_024
Top = TypeVar("Top", bound=TopRow)
Wait = TypeVar("Wait", bound=PeerWait)


def bounded(measures: JobMeasures, notes: list[Diagnostic]) -> Iterator[object]:
    """Yield the rows of the kinds that a report declares, by kind; adds a note for each table that lost rows."""
    shared = {kind: bound(measures.rows(kind), notes, name) for kind, (bound, name) in _BOUNDS.items()}
    for kind in declared():
        yield from shared.get(kind, measures.rows(kind))


def _longest(waits: Sequence[Wait], notes: list[Diagnostic], name: str) -> tuple[Wait, ...]:
    """The longest waits of all ranks."""
    ordered = tuple(sorted(waits, key=lambda wait: (-wait.total_ns, wait.rank, wait.peer)))
    if len(ordered) > _MOST_PAIRS:
        notes.append(_cut(messages.pairs_cut(table=name, kept=_MOST_PAIRS, n=len(ordered)), messages.DO_MATRIX_SQL))
    return ordered[:_MOST_PAIRS]


def _largest(rows: Sequence[Top], notes: list[Diagnostic], name: str) -> tuple[Top, ...]:
    """The largest rows after rows of all ranks with the same name are added up."""
    summed = _summed(rows)
    if len(summed) > _TOP_ROWS:
        notes.append(_cut(messages.names_cut(table=name, kept=_TOP_ROWS, n=len(summed)), messages.DO_SQL))
    return summed[:_TOP_ROWS]


def _cut(message: Message, hint: Message) -> Diagnostic:
    return Diagnostic(level="info", message=message, hint=hint)


def _summed(rows: Sequence[Top]) -> tuple[Top, ...]:
    """Add up the rows of single ranks with the same name; the median is the median of the ranks' medians."""
    parts: dict[tuple[str, str], list[Top]] = {}
    for row in rows:
        parts.setdefault((row.name, row.detail), []).append(row)
    total = sum(row.total_ns for row in rows) or 1
    summed = [
        replace(
            own[0],
            name=name,
            detail=detail,
            ranks=tuple(sorted({rank for row in own for rank in row.ranks})),
            count=sum(row.count for row in own),
            total_ns=(ns := sum(row.total_ns for row in own)),
            share=ns / total,
            min_ns=min(row.min_ns for row in own),
            median_ns=spread([row.median_ns for row in own])[1],
            max_ns=max(row.max_ns for row in own),
        )
        for (name, detail), own in parts.items()
    ]
    return tuple(sorted(summed, key=lambda row: (-row.total_ns, row.name, row.detail)))


_BOUNDS: Mapping[type, tuple[Any, str]] = {
    ArrivalWait: (_longest, "waits for the last rank"),
    TaskWait: (_longest, "waits by peer"),
    KernelTop: (_largest, "kernels"),
    OperatorTop: (_largest, "operators"),
    HostCallTop: (_largest, "host calls"),
    CommunicationTop: (_largest, "communication"),
}
"""Kinds whose rows are cut, with the name of each table in notes, in the order of the notes."""
