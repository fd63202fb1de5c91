"""The second round over the ranks: every measure of one rank, by functions that `measure.registry` finds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hermes.base.errors import Diagnostic
from hermes.profiles import messages
from hermes.profiles.measure.registry import PerRank, RankTables, every_measure

MOST_ROWS = 2_000
"""Rows of one kind that a rank may send: the first, which are the longest where a measure has an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasures:
    """What was measured of one rank, which knew nothing of the others: rows of all kinds; at most 1 MB as bytes."""

    rank: int
    rows: tuple[object, ...]
    notes: tuple[Diagnostic, ...] = ()


def measure(rank: RankTables, *, threads: int = 1) -> RankMeasures:
    """All measures of one rank; `threads` of them at once, which lets polars and NumPy work side by side."""
    found = every_measure()
    made = _beside(rank, found, threads) if threads > 1 else [one.rows(rank) for one in found]
    counts: Counter[type] = Counter()
    rows: list[object] = []
    for row in (row for own in made for row in own):
        counts[type(row)] += 1
        if counts[type(row)] <= MOST_ROWS:
            rows.append(row)
    return RankMeasures(rank=rank.rank, rows=tuple(rows), notes=tuple(_cut(rank, counts)))


def _beside(rank: RankTables, found: Sequence[PerRank], threads: int) -> list[tuple[object, ...]]:
    """Their rows. Every other thread begins at the end: measures that stand together wait for what they share."""
    left = deque(range(len(found)))
    made: dict[int, tuple[object, ...]] = {}

    def work(take: Callable[[], int]) -> None:
        while True:
            try:
                at = take()
            except IndexError:
                return  # none is left
            made[at] = found[at].rows(rank)

    with ThreadPoolExecutor(max_workers=threads) as beside:
        for one in [beside.submit(work, (left.popleft, left.pop)[thread % 2]) for thread in range(threads)]:
            one.result()
    return [made[at] for at in range(len(found))]


def _cut(rank: RankTables, counts: Counter[type]) -> list[Diagnostic]:
    return [
        Diagnostic(
            level="info",
            message=messages.rows_cut(n=count, rank=rank.rank, kind=kind.__name__, kept=MOST_ROWS),
            hint=messages.DO_SQL,
        )
        for kind, count in sorted(counts.items(), key=lambda one: one[0].__name__)
        if count > MOST_ROWS
    ]
