"""What a host call costs per step, for the rules that look at calls."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.analyze.measures import TopRow
from hermes.diagnose.rule import Measures


def host_cost(measures: Measures, rows: Sequence[TopRow]) -> tuple[int, float, tuple[int, ...]]:
    """Nanoseconds per step and rank of these rows, their share of the mean host step, and the ranks concerned."""
    ranks = tuple(sorted({rank for row in rows for rank in row.ranks}))
    steps = sum(measures.steps_of_rank.get(rank, 0) for rank in ranks)
    marks = [split.host_ns for split in measures.splits if split.rank in ranks and split.host_ns]
    if not steps or not marks:
        return 0, 0.0, ranks
    cost = sum(row.total_ns for row in rows) // steps
    return cost, cost / (sum(marks) / len(marks)), ranks
