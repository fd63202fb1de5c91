"""Estimates clock offsets between ranks from the ends of collectives, which all members leave together.

Anchors are synchronising collectives, and transfers in both directions between two ranks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.model.step_measures import ClockOffset

# Ends of one collective differ by the transport's latency even on one clock. Clocks of two machines that agree better
# than this by chance are not worth telling apart. NTP keeps hosts within about a millisecond.
SAME_CLOCK_NS = 1_000_000
_TRANSPORT_NS, _SEVERAL, _CLEARLY = 5_000, 16, 4
"""Thresholds for different clocks on one host: the least lateness in ns, the least number of collectives that agree,
and the factor by which the lateness must exceed its spread.
"""
_ROBUST = 1.4826
"""Factor from a median absolute deviation to a standard deviation of a normal distribution."""


_FEW = 256
"""The largest number of ranks for which every collective that two ranks share is an anchor between them."""
_MOST_ANCHORS = 64
"""The most collectives of each rank that are anchors if a job has many ranks: the first of its capture."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """The collectives of one rank: their numbers, sorted, and the moment in ns at which the rank left each."""

    keys: Ints
    ends: Ints


def clock_offsets(hosts: Mapping[int, str | None], every: pl.DataFrame) -> tuple[ClockOffset, ...]:
    """One offset per rank, in rank order, against the lowest rank; `every` is from `operations_of_all_ranks`.

    Ranks of one host share its clock, unless their collectives clearly tell otherwise: each device has a clock, too.
    Other ranks follow from collectives that they share with a rank whose offset is known, nearest first. A rank that
    shares none is not moved, and is marked `assumed`. An unknown host counts as the same clock if the collectives agree
    within `SAME_CLOCK_NS` and do not clearly tell an offset. Each collective and each host is visited once.
    """
    ranks = sorted(hosts)
    ends, open_keys = _anchors(every, len(ranks))
    open_hosts: dict[str, list[int]] = {}
    for rank in ranks:
        host = hosts[rank]
        if host is not None:
            open_hosts.setdefault(host, []).append(rank)
    placed: dict[int, ClockOffset] = {}
    for root in ranks:
        if root in placed:
            continue
        placed[root] = ClockOffset(
            rank=root,
            offset_ns=0,
            error_ns=0 if root == ranks[0] else None,
            anchors=0,
            method="same host" if root == ranks[0] else "assumed",
        )
        # Search breadth first: the shortest chain of anchors has the smallest error. The clocks of two ranks of one
        # host count as equal only if no chain tells.
        queue, beside = deque([root]), dict[int, ClockOffset]()
        while queue or beside:
            if not queue:
                queue.append(_placed_first(placed, beside))
            near = queue.popleft()
            own = ends.get(near)
            # All ranks that share a collective or host with this rank are placed now: no later rank needs to ask again.
            close = set(open_hosts.pop(hosts[near] or "", ()))
            for key in own.keys.tolist() if own else ():
                close.update(open_keys.pop(key, ()))
            for rank in sorted(close - placed.keys()):
                found = _between(placed[near], rank, hosts, ends)
                if found.method == "same host":
                    beside.setdefault(rank, found)
                    continue
                placed[rank] = found
                beside.pop(rank, None)
                queue.append(rank)
    return tuple(placed[rank] for rank in ranks)


def _placed_first(placed: dict[int, ClockOffset], beside: dict[int, ClockOffset]) -> int:
    """Place the lowest rank whose offset follows only from its host; return that rank."""
    rank = min(beside)
    placed[rank] = beside.pop(rank)
    return rank


def _anchors(every: pl.DataFrame, ranks: int) -> tuple[dict[int, _Ends], dict[int, list[int]]]:
    """The anchors of each rank (synchronising collectives and pairs), and for each anchor the ranks that have it."""
    rows = pl.concat([every.filter(pl.col("manner") == "all"), _both_ways(every)])
    if ranks > _FEW:
        rows = rows.filter(pl.col("start_ns").rank("ordinal").over("rank") <= _MOST_ANCHORS)
    rows = rows.select(
        "rank",
        pl.struct("group", "key").rank("dense").cast(pl.Int64).alias("number"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
    ).unique(["rank", "number"], keep="last", maintain_order=True)
    own = {
        int(str(rank)): _Ends(mine["number"].to_numpy(), mine["end_ns"].to_numpy())
        for (rank,), mine in rows.sort("number").partition_by("rank", as_dict=True).items()
    }
    return own, dict(rows.group_by("number").agg("rank").iter_rows())


def _both_ways(every: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives between two ranks if each sends as much as it receives.

    A send may end before its receive does: the shift in one direction cancels the shift in the other.
    """
    rows = every.filter((pl.col("manner") == "pair") & pl.col("op").is_in(("send", "recv")))
    sent = (pl.col("op") == "send").sum().over("rank", "peer")
    return rows.filter(2 * sent == pl.len().over("rank", "peer")).with_columns(pl.lit("").alias("group"))


def _between(near: ClockOffset, rank: int, hosts: Mapping[int, str | None], ends: Mapping[int, _Ends]) -> ClockOffset:
    """The offset of a rank from a rank with a known offset that shares its host or a collective."""
    same = hosts[rank] is not None and hosts[rank] == hosts[near.rank]
    beside = ClockOffset(rank=rank, offset_ns=near.offset_ns, error_ns=near.error_ns, anchors=0, method="same host")
    one, other = ends.get(near.rank), ends.get(rank)
    if one is None or other is None or not len(one.keys):
        return beside
    _, here, there = np.intersect1d(one.keys, other.keys, assume_unique=True, return_indices=True)
    if same and len(here) < _SEVERAL:
        return beside
    gaps = np.sort(one.ends[here] - other.ends[there])
    gap = int(gaps[len(gaps) // 2])
    scatter = int(3 * _ROBUST * float(np.median(np.abs(gaps - gap)))) if len(gaps) > 1 else None
    told = len(gaps) >= _SEVERAL and scatter is not None and abs(gap) > max(_TRANSPORT_NS, _CLEARLY * scatter)
    if same and not told:
        return beside
    if abs(gap) < SAME_CLOCK_NS and not told and (hosts[rank] is None or hosts[near.rank] is None):
        return ClockOffset(
            rank=rank, offset_ns=near.offset_ns, error_ns=abs(gap) + (scatter or 0), anchors=len(gaps), method="assumed"
        )
    error = scatter + near.error_ns if scatter is not None and near.error_ns is not None else None
    return ClockOffset(
        rank=rank, offset_ns=near.offset_ns + gap, error_ns=error, anchors=len(gaps), method="collectives"
    )
