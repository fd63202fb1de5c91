"""Collects the leaves of all ranks: in full for a limited number of ranks, summed by leaf for the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hermes.model.leaf import HOST_WAITS, Leaf
from hermes.model.leaf_time import How, LeafTime, PathRank, lengths
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import typical_step
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.profiles.pipeline.rank_exchange import RankExchange
from hermes.profiles.tree.path_of_waits import WaitPath, path_of_waits

_OF_SPLIT = {
    Leaf.OTHER_COMPUTE: "compute_ns", Leaf.COMMUNICATION: "exposed_comm_ns", Leaf.EXPOSED_COPY: "copy_exposed_ns",
    Leaf.NOT_RECORDED: "free_ns",
}  # fmt: skip
WHOLE = 64
"""The number of ranks whose leaves the report keeps in full: evenly chosen from the shortest steps to the longest."""


def job_leaves(ranks: Sequence[Sequence[LeafTime]]) -> Iterator[LeafTime]:
    """The leaf rows of all ranks, given as one sequence per rank. No leaf of any rank is left out."""
    ordered = sorted((sum(row.total_ns for row in rows), place) for place, rows in enumerate(ranks))
    last = len(ordered) - 1
    chosen = {ordered[round(at * last / (WHOLE - 1))][1] for at in range(WHOLE)} if last >= WHOLE else range(len(ranks))
    for place, rows in enumerate(ranks):
        yield from rows if place in chosen else _by_leaf(rows)


def job_path(job: JobOutline, exchanged: Sequence[RankExchange]) -> WaitPath:
    """The path of waits through the ranks; through the slowest rank if each has only a split of its steps."""
    ordered = sorted(exchanged, key=lambda one: one.rank)
    ranks = list(job.followed(ordered))
    if ranks:
        return path_of_waits(ranks, job.binding({one.rank: one.spells.binding for one in ranks}), job.leads())
    times = list(leaves_of_splits(job.steps.every))
    length = lengths(times, job.steps.counts)
    slowest = max(length, key=lambda rank: (length[rank], -rank), default=None)
    return WaitPath(
        times={(row.leaf, row.how, "", "", None): row.total_ns for row in times if row.rank == slowest},
        steps=job.steps.counts[slowest] if slowest is not None and job.steps.marked else 0,
    )  # fmt: skip


def path_rows(path: WaitPath) -> Iterator[PathRank]:
    """For each rank, how long the path of waits lies on it, the longest first."""
    by_rank = path.by_rank
    whole = sum(by_rank.values())
    for rank, ns in sorted(by_rank.items(), key=lambda one: (-one[1], one[0])):
        yield PathRank(rank=rank, steps=path.steps, total_ns=ns, share=ns / whole)


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
                    step_ns=getattr(middle, name) or 0, long_ns=0,
                )  # fmt: skip


def _by_leaf(rows: Sequence[LeafTime]) -> Iterator[LeafTime]:
    """One row for each leaf and each awaited rank; waits for the device keep their calls, which are few."""
    sums: dict[tuple[int, Leaf, str, int | None], tuple[int, int, int]] = {}
    for row in rows:
        key = (row.rank, row.leaf, row.what if row.leaf in HOST_WAITS else "", row.awaited)
        total, one, slow = sums.get(key, (0, 0, 0))
        sums[key] = (total + row.total_ns, one + row.step_ns, slow + row.long_ns)
    for (rank, leaf, what, awaited), (total, one, slow) in sums.items():
        yield LeafTime(
            rank=rank, leaf=leaf, how=How.OTHERS, what=what, place="", awaited=awaited, total_ns=total, step_ns=one,
            long_ns=slow,
        )  # fmt: skip
