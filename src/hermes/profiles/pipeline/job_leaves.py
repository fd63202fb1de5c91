"""The leaves of all ranks: whole for as many as one looks at, and by leaf for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hermes.model.leaf_time import How, LeafTime

WHOLE = 64
"""Of so many ranks the report holds operators and places: evenly chosen from the shortest steps to the longest."""


def job_leaves(ranks: Sequence[Sequence[LeafTime]]) -> Iterator[LeafTime]:
    """The rows of all ranks, each rank's in one sequence. No leaf of any rank is left out."""
    lengths = sorted((sum(row.total_ns for row in rows), place) for place, rows in enumerate(ranks))
    last = len(lengths) - 1
    chosen = {lengths[round(at * last / (WHOLE - 1))][1] for at in range(WHOLE)} if last >= WHOLE else range(len(ranks))
    for place, rows in enumerate(ranks):
        yield from rows if place in chosen else _by_leaf(rows)


def _by_leaf(rows: Sequence[LeafTime]) -> Iterator[LeafTime]:
    """One row for each leaf and each rank that is waited for."""
    sums: dict[tuple[object, object], LeafTime] = {}
    for row in rows:
        key = (row.leaf, row.awaited)
        before = sums.get(key)
        sums[key] = replace(
            row, how=How.OTHERS, what="", place="",
            total_ns=row.total_ns + (before.total_ns if before else 0),
            step_ns=row.step_ns + (before.step_ns if before else 0),
            held_ns=row.held_ns + (before.held_ns if before else 0),
            long_ns=row.long_ns + (before.long_ns if before else 0),
        )  # fmt: skip
    yield from sums.values()
