"""The leaves of a job: the mean over its ranks, after each wait is replaced by what the awaited rank did meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import LeafTime

_Key = tuple[Leaf, str, str, int | None]
"""Leaf, what it is of, place, and the rank where that is not on all ranks: the one that others waited for."""
_ROUNDS = 8
"""A wait may be for a rank that waits itself. After so many ranks in a row it stays a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLeaf:
    """One leaf of a job, of one operator or call at one place: nanoseconds of all steps, as the mean over the ranks.

    `waited_ns` is the part of `ns` in which ranks waited for `rank`, which was in this leaf meanwhile. Of a leaf that
    no rank waited for, `rank` is None; of a wait that nothing replaces it is the awaited rank.
    """

    leaf: Leaf
    what: str
    place: str
    rank: int | None
    ns: int
    waited_ns: int


def job_tree(rows: Iterable[LeafTime]) -> tuple[JobLeaf, ...]:
    """The leaves of a job, the longest first. Their sum is the mean over the ranks of the time of all steps.

    What remains of a division by the number of ranks is left out: less than a nanosecond of each leaf.
    """
    own, held, waits = Counter[_Key](), dict[int, Counter[_Key]](), Counter[int | None]()
    ranks = set()
    for row in rows:
        ranks.add(row.rank)
        if row.held_ns:
            awaited = row.awaited if row.leaf is Leaf.WAIT else row.rank
            key = (row.leaf, row.what, row.place, awaited)
            held.setdefault(row.rank, Counter())[key] += row.held_ns
        if row.leaf is Leaf.WAIT:
            waits[row.awaited] += row.total_ns
        else:
            own[row.leaf, row.what, row.place, None] += row.total_ns
    waited = _replaced(waits, held)
    found = Counter[_Key](own)
    found.update(waited)
    count = max(len(ranks), 1)
    made = [
        JobLeaf(leaf=key[0], what=key[1], place=key[2], rank=key[3], ns=ns // count, waited_ns=waited[key] // count)
        for key, ns in found.items()
    ]
    return tuple(
        sorted(made, key=lambda one: (-one.ns, one.leaf, one.what, one.place, -1 if one.rank is None else one.rank))
    )


def _replaced(waits: Mapping[int | None, int], held: Mapping[int, Counter[_Key]]) -> Counter[_Key]:
    """The waits by what the awaited ranks did, in shares of how long others waited meanwhile; integers add up."""
    left, made = Counter(waits), Counter[_Key]()
    for _ in range(_ROUNDS):
        again = Counter[int | None]()
        for rank, ns in left.items():
            did = held.get(rank) if rank is not None else None
            if not did:
                made[Leaf.WAIT, "", "", rank] += ns
                continue
            for key, share in _shares(ns, did).items():
                if key[0] is Leaf.WAIT:
                    again[key[3]] += share
                else:
                    made[key] += share
        left = again
    for rank, ns in left.items():
        made[Leaf.WAIT, "", "", rank] += ns
    return made


def _shares(ns: int, parts: Counter[_Key]) -> dict[_Key, int]:
    """A time in shares of others, as integers that add up to it: the largest gets what remains."""
    whole = sum(parts.values())
    shares = {key: ns * part // whole for key, part in parts.items()}
    largest = max(parts, key=lambda key: parts[key])
    shares[largest] += ns - sum(shares.values())
    return shares
