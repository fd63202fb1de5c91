"""The leaves of a job: the mean over its ranks, after each wait is replaced by what the awaited rank did meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf, LeafTime

_Key = tuple[Leaf, How, str, str, int | None]
"""Leaf, what of it, what it is of, place, and the rank where others waited for one."""
MOST = 2_000
"""Rows that are told apart: the longest. Of thousands of ranks, each awaited one has rows of its own."""
_ROUNDS = 8
"""A wait may be for a rank that waits itself. After so many ranks in a row it stays a wait."""


Curable = Callable[[Leaf, str, int], int | None]
"""How much of a leaf's time, of an operator or a call, can be won at most, in ns; None where that is not known."""


def job_tree(rows: Iterable[LeafTime], curable: Curable) -> tuple[JobLeaf, ...]:
    """The leaves of a job, the longest first. Their sum is the mean over the ranks of the time of all steps.

    What remains of a division by the number of ranks is left out: less than a nanosecond of each leaf.
    """
    own, held, waits = Counter[_Key](), dict[int, Counter[_Key]](), Counter[int | None]()
    ranks = set()
    for row in rows:
        ranks.add(row.rank)
        if row.held_ns:
            awaited = row.awaited if row.leaf is Leaf.WAIT else row.rank
            key = (row.leaf, row.how, row.what, row.place, awaited)
            held.setdefault(row.rank, Counter())[key] += row.held_ns
        if row.leaf is Leaf.WAIT:
            waits[row.awaited] += row.total_ns
        else:
            own[row.leaf, row.how, row.what, row.place, None] += row.total_ns
    waited = _replaced(waits, held)
    found = Counter[_Key](own)
    found.update(waited)
    count = max(len(ranks), 1)
    whole = sum(found.values()) or 1
    made = []
    for key, total in found.items():
        leaf, how, what, place, rank = key
        ns, others_ns = total // count, waited[key] // count
        made.append(
            JobLeaf(
                leaf=leaf, how=how, what=what, place=place, rank=rank, total_ns=ns, share=total / whole,
                waited_ns=others_ns, curable_ns=_curable(curable(leaf, what, ns), others_ns),
            )
        )  # fmt: skip
    made.sort(key=_order)
    return (*made[:MOST], *_others(made[MOST:]))


def _others(rows: Sequence[JobLeaf]) -> Iterator[JobLeaf]:
    """One row for each leaf: no leaf is cut."""
    sums: dict[Leaf, JobLeaf] = {}
    for row in rows:
        before = sums.get(row.leaf)
        rest = replace(row, how=How.OTHERS, what="", place="", rank=None)
        sums[row.leaf] = rest if before is None else replace(
            before, total_ns=before.total_ns + row.total_ns, share=before.share + row.share,
            waited_ns=before.waited_ns + row.waited_ns,
            curable_ns=None if before.curable_ns is None or row.curable_ns is None
            else before.curable_ns + row.curable_ns,
        )  # fmt: skip
    yield from sorted(sums.values(), key=_order)


def _curable(own_ns: int | None, waited_ns: int) -> int | None:
    """What can be won of a leaf: at least the time in which others waited, for no other rank needs that time."""
    return max(own_ns or 0, waited_ns) if own_ns is not None or waited_ns else None


def _order(row: JobLeaf) -> tuple[int, Leaf, How, str, str, int]:
    return -row.total_ns, row.leaf, row.how, row.what, row.place, -1 if row.rank is None else row.rank


def _replaced(waits: Mapping[int | None, int], held: Mapping[int, Counter[_Key]]) -> Counter[_Key]:
    """The waits by what the awaited ranks did, in shares of how long others waited meanwhile; integers add up."""
    left, made = Counter(waits), Counter[_Key]()
    for _ in range(_ROUNDS):
        again = Counter[int | None]()
        for rank, ns in left.items():
            did = held.get(rank) if rank is not None else None
            if not did:
                made[Leaf.WAIT, How.CALL, "", "", rank] += ns
                continue
            for key, share in _shares(ns, did).items():
                if key[0] is Leaf.WAIT:
                    again[key[4]] += share
                else:
                    made[key] += share
        left = again
    for rank, ns in left.items():
        made[Leaf.WAIT, How.CALL, "", "", rank] += ns
    return made


def _shares(ns: int, parts: Counter[_Key]) -> dict[_Key, int]:
    """A time in shares of others, as integers that add up to it: the largest gets what remains."""
    whole = sum(parts.values())
    shares = {key: ns * part // whole for key, part in parts.items()}
    largest = max(parts, key=lambda key: parts[key])
    shares[largest] += ns - sum(shares.values())
    return shares
