"""Makes the tree of a job from its path of waits: one row of each leaf, call, place and rank that spends more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf
from hermes.profiles.tree.path_of_waits import PathKey, WaitPath

MOST = 2_000
"""The most rows that are kept apart: the longest. With thousands of ranks, each late rank has rows of its own."""
NEVER = frozenset({Leaf.START, Leaf.END, Leaf.PROFILER})
"""Leaves from which no fix of the job gains time: a run without the profiler has none of them."""

Curable = Callable[[Leaf, str, int], int | None]
"""How many ns of a leaf's time, of an operator or a call, can be gained at most; None if unknown."""


def job_tree(path: WaitPath, curable: Curable) -> tuple[JobLeaf, ...]:
    """The leaves of a job, the longest first. Their sum is the length of its path of waits.

    All that a rank spends more than the others can be gained: the others show that the work does not need it.
    """
    whole = sum(path.times.values()) or 1
    made = [_row(key, ns, whole, curable) for key, ns in path.times.items()]
    made.sort(key=_order)
    return (*made[:MOST], *_others(made[MOST:]))


def _row(key: PathKey, ns: int, whole: int, curable: Curable) -> JobLeaf:
    leaf, how, what, place, rank = key
    more = rank is not None and leaf is not Leaf.WAIT and leaf not in NEVER
    return JobLeaf(
        leaf=leaf, how=how, what=what, place=place, rank=rank, total_ns=ns, share=ns / whole,
        curable_ns=ns if more else curable(leaf, what, ns),
    )  # fmt: skip


def _others(rows: Sequence[JobLeaf]) -> Iterator[JobLeaf]:
    """One row for each leaf, which sums its rows beyond the limit: no leaf is cut."""
    by_leaf: dict[Leaf, list[JobLeaf]] = {}
    for row in rows:
        by_leaf.setdefault(row.leaf, []).append(row)
    sums = (
        JobLeaf(
            leaf=leaf, how=How.OTHERS, what="", place="", rank=None, total_ns=sum(row.total_ns for row in own),
            share=sum(row.share for row in own), curable_ns=_sum([row.curable_ns for row in own]),
        )
        for leaf, own in by_leaf.items()
    )  # fmt: skip
    yield from sorted(sums, key=_order)


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum of values; None if any value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _order(row: JobLeaf) -> tuple[int, Leaf, How, str, str, int]:
    return -row.total_ns, row.leaf, row.how, row.what, row.place, -1 if row.rank is None else row.rank
