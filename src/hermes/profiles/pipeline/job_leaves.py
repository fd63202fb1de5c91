"""Collects the leaves of all ranks: in full for a limited number of ranks, summed by leaf for the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, LeafTime
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import typical_step

_OF_SPLIT = {
    Leaf.OTHER_COMPUTE: "compute_ns", Leaf.COMMUNICATION: "exposed_comm_ns", Leaf.EXPOSED_COPY: "copy_exposed_ns",
    Leaf.NOT_RECORDED: "free_ns",
}  # fmt: skip
WHOLE = 64
"""The number of ranks whose leaves the report keeps in full: evenly chosen from the shortest steps to the longest."""


def job_leaves(ranks: Sequence[Sequence[LeafTime]]) -> Iterator[LeafTime]:
    """The leaf rows of all ranks, given as one sequence per rank. No leaf of any rank is left out."""
    lengths = sorted((sum(row.total_ns for row in rows), place) for place, rows in enumerate(ranks))
    last = len(lengths) - 1
    chosen = {lengths[round(at * last / (WHOLE - 1))][1] for at in range(WHOLE)} if last >= WHOLE else range(len(ranks))
    for place, rows in enumerate(ranks):
        yield from rows if place in chosen else _by_leaf(rows)


def leaves_of_splits(splits: Iterable[StepSplit]) -> Iterator[LeafTime]:
    """The leaves of ranks that have only a split of each step, such as from a table of step times."""
    by_rank: dict[int, list[StepSplit]] = {}
    for split in splits:
        if split.compute_ns is not None:
            by_rank.setdefault(split.rank, []).append(split)
    for rank, own in sorted(by_rank.items()):
        middle = typical_step(own)
        for leaf, name in _OF_SPLIT.items():
            total = sum(getattr(split, name) or 0 for split in own)
            if total:
                yield LeafTime(
                    rank=rank, leaf=leaf, how=How.OTHERS, what="", place="", awaited=None, total_ns=total,
                    step_ns=getattr(middle, name) or 0, held_ns=0, long_ns=0,
                )  # fmt: skip


def _by_leaf(rows: Sequence[LeafTime]) -> Iterator[LeafTime]:
    """One row for each leaf and each awaited rank."""
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
