"""Checks that captures without a recorded rank overlap in time; captures that do not belong to different runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.profiles import messages
from hermes.store.rank_data import RankData

_Span = tuple[int, int]


def ranks_apart_in_time(ranks: Sequence[RankData], assumed: Collection[int]) -> tuple[set[int], list[Diagnostic]]:
    """Return the ranks to leave out, since they were captured at another time, and the notes about them.

    `assumed` are the numbers of captures without a recorded rank. Captures that overlap in time form a set. The largest
    set is kept; of sets of equal size, the latest. A capture whose clock does not count from a known moment is kept.
    """
    spans = {rank.rank: span for rank in ranks if rank.rank in assumed and (span := _span(rank)) is not None}
    sets = _at_once(spans)
    if len(sets) < 2:
        return set(), []
    best = max(sets, key=lambda own: (len(own), max(spans[rank][1] for rank in own)))
    left = {rank for own in sets if own is not best for rank in own}
    by_rank = {rank.rank: rank for rank in ranks}
    processes = {_process(by_rank[rank]) for rank in spans}
    what = messages.OF_ONE_PROCESS if len(processes) == 1 and None not in processes else messages.OF_SEVERAL_RUNS
    note = Diagnostic(
        level="degraded",
        message=messages.not_at_once(
            n=len(spans), what=what, chosen=[by_rank[rank].place for rank in sorted(best)[:3]]
        ),
        where=", ".join(by_rank[rank].place for rank in sorted(left)[:4]),
        lost=messages.lost_captures(n=len(left)),
        hint=messages.DO_NAME_FILE,
    )
    return left, [note]


def _span(rank: RankData) -> _Span | None:
    """The first and last moment of a capture's rows, in ns since 1970; None if its clock has no known start."""
    epoch = rank.table("rank", "epoch_ns")["epoch_ns"].to_list()
    if not epoch or epoch[0] is None:
        return None
    found = [row for name in ("host_op", "kernel") if (row := _ends(rank, name)) is not None]
    return (epoch[0] + min(row[0] for row in found), epoch[0] + max(row[1] for row in found)) if found else None


def _ends(rank: RankData, table: str) -> _Span | None:
    path = rank.folder / f"{table}.parquet"
    if not path.exists():
        return None
    start = pl.col("start_ns")
    first, last = (
        pl.scan_parquet(path).select(start.min(), (start + pl.col("dur_ns")).max().alias("end")).collect().row(0)
    )
    return None if first is None else (first, last)


def _process(rank: RankData) -> int | None:
    pids = rank.table("host_op", "pid")["pid"].drop_nulls()
    return int(pids.value_counts(sort=True)["pid"][0]) if len(pids) else None


def _at_once(spans: dict[int, _Span]) -> list[list[int]]:
    """Sets of ranks whose captures overlap in time."""
    sets: list[list[int]] = []
    reach = 0
    for rank, (first, last) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        if not sets or first >= reach:
            sets.append([])
        sets[-1].append(rank)
        reach = max(reach, last)
    return sets
