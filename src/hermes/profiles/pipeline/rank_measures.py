"""The second round for one rank: computes every measure of `measure.registry` on its tables."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hermes.base.errors import Diagnostic
from hermes.profiles import messages
from hermes.profiles.measure.registry import PerRank, RankTables, every_measure

MOST_ROWS = 2_000
"""The most rows of one kind that a rank may send: the first rows, which are the longest if a measure has an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMeasures:
    """The measures of one rank, computed without the other ranks: rows of all kinds; at most 1 MB as bytes."""

    rank: int
    rows: tuple[object, ...]
    notes: tuple[Diagnostic, ...] = ()


def measure(rank: RankTables, *, threads: int = 1) -> RankMeasures:
    """All measures of one rank; `threads` measures run at once, so polars and NumPy work side by side."""
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
    """The rows of each measure.

    Every other thread begins at the end: neighbouring measures wait for what they share.
    """
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
