"""Tables of a report that all ranks share, added up and cut to the rows that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hermes.base.errors import Diagnostic
from hermes.model.measures import PeerWait, TopRow
from hermes.profiles import messages
from hermes.profiles.measure.steps.breakdown import spread

_TOP_ROWS = 500
# Pairs of ranks grow with their square: beyond so many only the longest waits are kept.
_MOST_PAIRS = 1_024
Top = TypeVar("Top", bound=TopRow)
Wait = TypeVar("Wait", bound=PeerWait)


def longest(waits: Sequence[Wait], notes: list[Diagnostic], name: str) -> tuple[Wait, ...]:
    """The longest waits of all ranks."""
    ordered = sorted(waits, key=lambda wait: (-wait.total_ns, wait.rank, wait.peer))
    if len(ordered) > _MOST_PAIRS:
        notes.append(
            Diagnostic(
                level="info",
                message=messages.pairs_cut(table=name, kept=_MOST_PAIRS, n=len(ordered)),
                hint=messages.DO_MATRIX_SQL,
            )
        )
    return tuple(ordered[:_MOST_PAIRS])


def _summed(rows: Sequence[Top]) -> tuple[Top, ...]:
    """Rows of single ranks with the same name added up; the median is the median of the ranks' medians."""
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


def merged_top(rows: Sequence[Top], notes: list[Diagnostic], name: str) -> tuple[Top, ...]:
    """The rows of all ranks with the same name added up: the first of them."""
    summed = _summed(rows)
    if len(summed) > _TOP_ROWS:
        notes.append(
            Diagnostic(
                level="info",
                message=messages.names_cut(table=name.replace("_", " "), kept=_TOP_ROWS, n=len(summed)),
                hint=messages.DO_SQL,
            )
        )
    return summed[:_TOP_ROWS]
