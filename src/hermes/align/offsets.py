"""Offsets between the clocks of ranks, from the ends of collectives that all members leave together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.tables.collective import synchronising

# Completions of one collective differ by the transport's latency even on one clock; two clocks of different machines
# that agree better than this by chance are not worth telling apart. NTP holds hosts to about a millisecond.
SAME_CLOCK_NS = 1_000_000
_ROBUST = 1.4826
"""Turns a median absolute deviation into a standard deviation of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset:
    """Add `offset_ns` to a rank's times to bring them to the clock of the reference rank.

    `error_ns` is three robust standard deviations of the anchors (None: unknown); no skew below it means anything.
    """

    rank: int
    offset_ns: int
    error_ns: int | None
    anchors: int
    method: Literal["same host", "collectives", "assumed"]


def clock_offsets(hosts: Mapping[int, str | None], comm_op: Mapping[int, pl.DataFrame]) -> tuple[ClockOffset, ...]:
    """One offset per rank, in rank order, against the lowest rank.

    Ranks of one host share its clock. Others follow from collectives they share with a rank that is placed already,
    nearest first; a rank that shares none is left where it is, as `assumed`. An unknown host counts as the same
    clock when the collectives agree within `SAME_CLOCK_NS`.
    """
    ranks = sorted(hosts)
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
        _spread(root, ranks, hosts, {rank: _ends(comm_op[rank]) for rank in ranks}, placed)
    return tuple(placed[rank] for rank in ranks)


def _spread(
    root: int,
    ranks: Sequence[int],
    hosts: Mapping[int, str | None],
    ends: Mapping[int, dict[tuple[str, str], int]],
    placed: dict[int, ClockOffset],
) -> None:
    """Breadth first from `root`: the shortest chain of anchors has the smallest error."""
    queue = [root]
    while queue:
        near = queue.pop(0)
        for rank in ranks:
            if rank in placed:
                continue
            found = _between(placed[near], rank, hosts, ends)
            if found:
                placed[rank] = found
                queue.append(rank)


def _between(
    near: ClockOffset, rank: int, hosts: Mapping[int, str | None], ends: Mapping[int, dict[tuple[str, str], int]]
) -> ClockOffset | None:
    if hosts[rank] is not None and hosts[rank] == hosts[near.rank]:
        return ClockOffset(rank=rank, offset_ns=near.offset_ns, error_ns=near.error_ns, anchors=0, method="same host")
    shared = ends[near.rank].keys() & ends[rank].keys()
    if not shared:
        return None
    gaps = np.sort(np.array([ends[near.rank][key] - ends[rank][key] for key in shared], dtype=np.int64))
    gap = int(gaps[len(gaps) // 2])
    scatter = int(3 * _ROBUST * float(np.median(np.abs(gaps - gap)))) if len(gaps) > 1 else None
    if abs(gap) < SAME_CLOCK_NS and (hosts[rank] is None or hosts[near.rank] is None):
        return ClockOffset(
            rank=rank, offset_ns=near.offset_ns, error_ns=abs(gap) + (scatter or 0), anchors=len(gaps), method="assumed"
        )
    error = scatter + near.error_ns if scatter is not None and near.error_ns is not None else None
    return ClockOffset(
        rank=rank, offset_ns=near.offset_ns + gap, error_ns=error, anchors=len(gaps), method="collectives"
    )


def _ends(comm_op: pl.DataFrame) -> dict[tuple[str, str], int]:
    """End of each synchronising collective by its group and its name, or its place in the group where names repeat."""
    keyed = synchronising(comm_op).select("group", "key", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"))
    return {(group, name): end for group, name, end in keyed.iter_rows()}
