"""Computes the leaves of a job: the mean over ranks, with each wait replaced by what delayed the awaited rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import How, JobLeaf, LeafTime
from hermes.profiles.tree.leaf_kinds import MOSTLY

_Key = tuple[Leaf, How, str, str, int | None]
"""Key of a row: leaf, kind of leaf, operator or call, place, and the awaited rank while others waited for it."""
_Named = TypeVar("_Named", _Key, Leaf)
MOST = 2_000
"""The most rows that are kept apart: the longest. With thousands of ranks, each awaited rank has rows of its own."""
_ROUNDS = 8
"""The longest chain of ranks that wait for each other; after it, a wait stays a wait."""


Curable = Callable[[Leaf, str, int], int | None]
"""How many ns of a leaf's time, of an operator or a call, can be gained at most; None if unknown."""


def job_tree(rows: Iterable[LeafTime], curable: Curable) -> tuple[JobLeaf, ...]:
    """The leaves of a job, the longest first. Their sum is the mean over the ranks of the time of all steps.

    The remainder of the division by the number of ranks is left out: less than a nanosecond of each leaf.
    """
    own, waits = Counter[_Key](), Counter[int | None]()
    spent, held = dict[int, Counter[_Key]](), dict[int, Counter[_Key]]()
    waiting: dict[int, set[int]] = {}
    for row in rows:
        key = (row.leaf, row.how, row.what, row.place, row.awaited if row.leaf is Leaf.WAIT else None)
        spent.setdefault(row.rank, Counter())[key] += row.total_ns
        if row.held_ns:
            held.setdefault(row.rank, Counter())[key] += row.held_ns
        if row.leaf is not Leaf.WAIT:
            own[key] += row.total_ns
        else:
            waits[row.awaited] += row.total_ns
            if row.awaited is not None:
                waiting.setdefault(row.awaited, set()).add(row.rank)
    count = max(len(spent), 1)
    waited = _replaced(waits, _causes(spent, held, {rank: len(those) for rank, those in waiting.items()}))
    found = Counter[_Key](own)
    found.update(waited)
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
    """One row for each leaf, which sums its rows beyond the limit: no leaf is cut."""
    by_leaf: dict[Leaf, list[JobLeaf]] = {}
    for row in rows:
        by_leaf.setdefault(row.leaf, []).append(row)
    sums = (
        JobLeaf(
            leaf=leaf, how=How.OTHERS, what="", place="", rank=None, total_ns=sum(row.total_ns for row in own),
            share=sum(row.share for row in own), waited_ns=sum(row.waited_ns for row in own),
            curable_ns=_sum([row.curable_ns for row in own]),
        )
        for leaf, own in by_leaf.items()
    )  # fmt: skip
    yield from sorted(sums, key=_order)


def _sum(values: Sequence[int | None]) -> int | None:
    """The sum of values; None if any value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _curable(own_ns: int | None, waited_ns: int) -> int | None:
    """The possible gain of a leaf: at least the time in which others waited, since no other rank needs that time."""
    return max(own_ns or 0, waited_ns) if own_ns is not None or waited_ns else None


def _order(row: JobLeaf) -> tuple[int, Leaf, How, str, str, int]:
    return -row.total_ns, row.leaf, row.how, row.what, row.place, -1 if row.rank is None else row.rank


def _causes(
    spent: Mapping[int, Mapping[_Key, int]], held: Mapping[int, Mapping[_Key, int]], waiting: Mapping[int, int]
) -> dict[int, dict[_Key, int]]:
    """The causes of each awaited rank's delay: the leaves in which it spends more than the median rank.

    These leaves do not explain most of the wait if ranks are late in turn, because then each spends as much as the
    others in the end. The leaves do not explain it either if the awaited rank itself waited. Then the cause is what the
    rank did while others waited. `waiting` counts the ranks that waited for it.
    """
    if not waiting:
        return {}
    usual = _usual(spent.values())
    usual_leaves = _usual([_sums(rows) for rows in spent.values()])
    found = {}
    for rank, many in waiting.items():
        # Rows of different leaves have no key in common.
        more = dict[_Key, int]()
        own = _by_leaf(spent.get(rank, {}))
        for leaf, ns in _beyond(_sums(spent.get(rank, {})), usual_leaves).items():
            if leaf is not Leaf.WAIT:
                more |= _shares(ns, _beyond(own[leaf], usual) or own[leaf])
        during = held.get(rank, {})
        causes = more if more and many * sum(more.values()) >= MOSTLY * sum(during.values()) else during
        found[rank] = {(*key[:4], key[4] if key[0] is Leaf.WAIT else rank): ns for key, ns in causes.items()}
    return found


def _by_leaf(rows: Mapping[_Key, int]) -> dict[Leaf, dict[_Key, int]]:
    """The rows of each leaf."""
    found: dict[Leaf, dict[_Key, int]] = {}
    for key, ns in rows.items():
        found.setdefault(key[0], {})[key] = ns
    return found


def _sums(rows: Mapping[_Key, int]) -> dict[Leaf, int]:
    """The time in ns of each leaf.

    Ranks may name the places of the same work differently, so their rows are not paired.
    """
    sums = dict[Leaf, int]()
    for key, ns in rows.items():
        sums[key[0]] = sums.get(key[0], 0) + ns
    return sums


def _usual(ranks: Collection[Mapping[_Named, int]]) -> dict[_Named, int]:
    """The median over the ranks of each time. Of two values it is the lower: with two ranks, the other rank's value."""
    times: dict[_Named, list[int]] = {}
    for rows in ranks:
        for key, ns in rows.items():
            times.setdefault(key, []).append(ns)
    found = dict[_Named, int]()
    for key, each in times.items():
        place = (len(ranks) - 1) // 2 - (len(ranks) - len(each))
        if place >= 0:
            found[key] = sorted(each)[place]
    return found


def _beyond(rows: Mapping[_Named, int], usual: Mapping[_Named, int]) -> dict[_Named, int]:
    return {key: ns - usual.get(key, 0) for key, ns in rows.items() if ns > usual.get(key, 0)}


def _replaced(waits: Mapping[int | None, int], causes: Mapping[int, Mapping[_Key, int]]) -> Counter[_Key]:
    """Replace waits by the causes that made the awaited ranks late, in shares; the integers add up."""
    left, made = Counter(waits), Counter[_Key]()
    for _ in range(_ROUNDS):
        again = Counter[int | None]()
        for rank, ns in left.items():
            did = causes.get(rank) if rank is not None else None
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


def _shares(ns: int, parts: Mapping[_Key, int]) -> dict[_Key, int]:
    """Split a time in proportion to the given parts, into integers; the largest part gets the remainder."""
    whole = sum(parts.values())
    shares = {key: ns * part // whole for key, part in parts.items()}
    largest = max(parts, key=lambda key: parts[key])
    shares[largest] += ns - sum(shares.values())
    return shares
