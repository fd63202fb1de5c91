"""Finds a broken network link from connections of a job that get no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hermes.jobs.api import LEAST_TRIES, Connection

_MOST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLink:
    """A broken link of a host, or a broken path to one `other` host; `pairs` of hosts are the evidence."""

    host: str
    other: str
    pairs: int


def cut_links(connections: Collection[tuple[str, Connection]], silent: Sequence[str]) -> list[CutLink]:
    """The fewest links that explain all pairs of hosts without an answer, links of most pairs first.

    `connections` are of the hosts that answered. An address of no answering host belongs to a silent host; if only one
    host is silent, to that host.
    """
    names = {link.local: host for host, link in connections}
    missing = silent[0] if len(silent) == 1 else ""
    left = {frozenset((host, names.get(link.remote) or missing or link.remote))
            for host, link in connections if link.tries >= LEAST_TRIES}  # fmt: skip
    left = {pair for pair in left if len(pair) == 2}
    heard = {host for host, _ in connections}
    found: list[CutLink] = []
    while left and len(found) < _MOST:
        counts = Counter(host for pair in left for host in pair)
        # Of the two hosts of a pair, the silent one is cut off; if both answered, the data cannot say which.
        worst = min(counts, key=lambda host: (-counts[host], host in heard, host))
        pairs = [pair for pair in left if worst in pair]
        alone = len(pairs) > 1 or worst not in heard
        (other,) = pairs[0] - {worst}
        found.append(CutLink(host=worst, other="" if alone else other, pairs=len(pairs)))
        left -= set(pairs)
    return found
