"""Who arrived last at each collective: from its starts on all ranks, or from the waits inside it if ranks are missing.

A collective can begin when its last member arrives: until then the others wait for that one, and only what follows is
transfer. Where the last to arrive was not collected, the waits that name their peer (`Notify_Wait` on Ascend) tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.analyze.measures import PeerWait
from hermes.base.intervals import flat
from hermes.tables.collective import ROOTED, keyed, synchronising

# Shorter waits are part of any transfer.
_SHORTEST_NS = 20_000
_BETWEEN_TWO = ("send", "recv", "send_recv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When a collective could begin on one rank: the moment, on that rank's clock, at which its last member arrived.

    `rank` is that member, `comm_id` the operation's row there; None when it was not collected. Only for ranks that
    were not last themselves.
    """

    at_ns: int
    rank: int
    comm_id: int | None


Arrivals = Mapping[int, Mapping[int, Arrival]]
"""By rank and `comm_id`."""


def by_starts(
    comm_op: Mapping[int, pl.DataFrame], clocks: Mapping[int, tuple[int, int]]
) -> dict[int, dict[int, Arrival]]:
    """Arrivals from the starts on all ranks, of collectives that at least two ranks have.

    A send and its receive are a collective of two. `comm_op` needs `comm_id, op, group, name, sequence, peer, start_ns`
    and `dur_ns`; `clocks` holds by rank what to add to its times and the error of that, in nanoseconds. A lead that is
    within the errors of both clocks is none.
    """
    found: dict[int, dict[int, Arrival]] = {rank: {} for rank in comm_op}
    rows = joined(comm_op, clocks).filter(pl.col("manner") != "rooted")
    if not rows.height:
        return found
    rows = rows.sort("aligned_ns", "rank")
    last = rows.group_by("group", "key", maintain_order=True).agg(
        pl.len().alias("members"),
        pl.col("rank").last().alias("last"),
        pl.col("comm_id").last().alias("last_id"),
        pl.col("aligned_ns").last().alias("at_ns"),
        pl.col("error_ns").last().alias("last_error_ns"),
    )
    late = rows.join(last.filter(pl.col("members") > 1), on=["group", "key"], how="inner").filter(
        (pl.col("rank") != pl.col("last"))
        & (pl.col("at_ns") - pl.col("aligned_ns") > pl.col("error_ns") + pl.col("last_error_ns"))
    )
    # An arrival after the end is the clock's error: then all was waiting.
    late = late.with_columns(pl.min_horizontal(pl.col("at_ns") - pl.col("offset_ns"), "end_ns").alias("own_ns"))
    for row in late.iter_rows(named=True):
        found[row["rank"]][row["comm_id"]] = Arrival(at_ns=row["own_ns"], rank=row["last"], comm_id=row["last_id"])
    return found


def joined(comm_op: Mapping[int, pl.DataFrame], clocks: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    """The rows of all ranks that can have a partner on another rank: `group` and `key` are equal on both.

    `manner` is `all` (nobody leaves before all have arrived), `rooted` (a broadcast and the like) or `pair`. With the
    start on the common clock, the end on the rank's own, and what was added with its error. Inputs as `by_starts`.
    """
    parts = []
    for rank, rows in sorted(comm_op.items()):
        offset_ns, error_ns = clocks.get(rank, (0, 0))
        if rows.height:
            parts += [
                _aligned(rank, own, manner, offset_ns, error_ns)
                for manner, own in (
                    ("all", synchronising(rows)),
                    ("rooted", keyed(rows, ROOTED)),
                    ("pair", _pairs(rank, rows)),
                )
            ]
    return pl.concat(parts) if parts else _aligned(0, _NO_ROW, "all", 0, 0)


_NO_ROW = pl.DataFrame(
    schema={
        "comm_id": pl.Int64,
        "group": pl.String,
        "key": pl.String,
        "start_ns": pl.Int64,
        "dur_ns": pl.Int64,
    }
)


def _aligned(rank: int, keyed: pl.DataFrame, manner: str, offset_ns: int, error_ns: int) -> pl.DataFrame:
    return keyed.select(
        pl.lit(rank, dtype=pl.Int64).alias("rank"),
        "comm_id",
        "group",
        "key",
        pl.lit(manner).alias("manner"),
        (pl.col("start_ns") + offset_ns).alias("aligned_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        pl.lit(offset_ns, dtype=pl.Int64).alias("offset_ns"),
        pl.lit(error_ns, dtype=pl.Int64).alias("error_ns"),
    )


def identity(group: str, members: tuple[int, ...]) -> str:
    """What tells a group apart among all ranks: its key and its members, as far as they are recorded, in order."""
    return f"{group} {members}" if members else group


def identified(rank: int, comm_op: pl.DataFrame, group: pl.DataFrame) -> pl.DataFrame:
    """The operations of a rank with what tells them apart among all ranks: their group's members, and their peers.

    Several groups of a job may bear one name (each stage has its own `dp`), so `group` gets the members, where they
    are known. Of sends and receives in a group of two, the peer is the other one if not recorded.
    """
    known = group.drop_nulls("global_rank").sort("group", "global_rank").group_by("group", maintain_order=True)
    members = {name: tuple(ranks) for name, ranks in known.agg("global_rank").iter_rows()}
    named = {name: identity(name, ranks) for name, ranks in members.items()}
    others = {
        name: next(other for other in ranks if other != rank)
        for name, ranks in members.items()
        if len(ranks) == 2 and rank in ranks and ranks[0] != ranks[1]
    }
    other = pl.col("group").replace_strict(others, default=None, return_dtype=pl.Int64)
    between = pl.col("op").is_in(_BETWEEN_TWO)
    return comm_op.with_columns(
        pl.coalesce("peer", pl.when(between).then(other)).alias("peer"),
        pl.coalesce(pl.col("group").replace_strict(named, default=None, return_dtype=pl.String), "group").alias(
            "group"
        ),
    )


def _pairs(rank: int, comm_op: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives with a key that both sides have: from whom to whom, and the how manieth.

    A batch of sends and receives with one other rank has no direction.
    """
    rows = comm_op.filter(pl.col("op").is_in(_BETWEEN_TWO) & pl.col("peer").is_not_null())
    here, there = pl.lit(rank, dtype=pl.Int64), pl.col("peer")
    first = (
        pl.when(pl.col("op") == "send")
        .then(here)
        .when(pl.col("op") == "recv")
        .then(there)
        .otherwise(pl.min_horizontal(here, there))
    )
    rows = rows.sort("start_ns", "comm_id").with_columns(
        first.alias("from"),
        (here + there - first).alias("to"),
        pl.when(pl.col("op") == "send_recv").then(pl.lit("=")).otherwise(pl.lit(">")).alias("way"),
    )
    nth = pl.int_range(pl.len()).over("from", "to", "way")
    return rows.with_columns(pl.format("{}{}{} {}", "from", "way", "to", nth).alias("key"), pl.lit("").alias("group"))


def by_peer(comm_task: pl.DataFrame, collected: Collection[int]) -> dict[int, Arrival]:
    """Arrivals of ranks that were not collected, from the longest wait of one rank in each of its operations.

    Only waits for an arrival count: those before the first transfer on their plane, and those longer than any transfer
    of the operation (in a ring the straggler may be far). The others wait for a transfer of the peer to end. Needs
    `rank, comm_id, task, plane, peer_rank, start_ns, dur_ns, bytes` and `link`.
    """
    tasks = comm_task.filter(pl.col("comm_id").is_not_null())
    moving = (pl.col("bytes").fill_null(0) > 0) & (pl.col("link").fill_null("") != "ON_CHIP")
    moves = tasks.filter(moving)
    first = moves.group_by("comm_id", "plane").agg(pl.col("start_ns").min().alias("first_ns"))
    longest_move = moves.group_by("comm_id").agg(pl.col("dur_ns").max().alias("move_ns"))
    waits = (
        tasks.filter(
            (pl.col("task") == "notify_wait")
            & (pl.col("dur_ns") >= _SHORTEST_NS)
            & (pl.col("peer_rank") != pl.col("rank"))
        )
        .join(first, on=["comm_id", "plane"], how="left", nulls_equal=True, maintain_order="left")
        .join(longest_move, on="comm_id", how="left", maintain_order="left")
    )
    before = (pl.col("start_ns") < pl.col("first_ns")).fill_null(value=True)
    beyond = (pl.col("dur_ns") > pl.col("move_ns")).fill_null(value=True)
    longest = (
        waits.filter(before | beyond)
        .sort("dur_ns", "start_ns", descending=[True, False])
        .group_by("comm_id", maintain_order=True)
        .first()
        .filter(~pl.col("peer_rank").is_in(list(collected)))
    )
    return {
        row["comm_id"]: Arrival(at_ns=row["start_ns"] + row["dur_ns"], rank=row["peer_rank"], comm_id=None)
        for row in longest.iter_rows(named=True)
    }


def rank_waits(
    comm_op: Mapping[int, pl.DataFrame], arrivals: Arrivals, collected: Collection[int]
) -> tuple[PeerWait, ...]:
    """How long each rank waited in collectives for each other, the longest first; what waits at once counts once."""
    parts: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for rank, own in arrivals.items():
        starts = dict(comm_op[rank].select("comm_id", "start_ns").iter_rows()) if own else {}
        for comm_id, arrival in own.items():
            start = starts[comm_id]
            parts.setdefault((rank, arrival.rank), []).append((max(0, arrival.at_ns - start), start))
    found = [
        PeerWait(
            rank=rank,
            peer=peer,
            peer_collected=peer in collected,
            waits=len(waits),
            total_ns=_union(waits),
            longest_ns=max(waits)[0],
            longest_at_ns=min(start for length, start in waits if length == max(waits)[0]),
            source="starts of collectives on all ranks",
            disjoint=True,
        )
        for (rank, peer), waits in parts.items()
    ]
    return tuple(sorted(found, key=lambda wait: (-wait.total_ns, wait.rank, wait.peer)))


def _union(waits: Sequence[tuple[int, int]]) -> int:
    """Nanoseconds in which at least one of these waits, as `(length, start)`, goes on.

    Gradients in buckets are reduced side by side: a rank waits for the last member of several at once.
    """
    lengths, starts = np.array(waits, dtype=np.int64).T
    return flat(starts, starts + lengths).total


def meetings(comm_op: Mapping[int, pl.DataFrame]) -> list[dict[int, int]]:
    """The collectives, and the sends with their receives, that several ranks have: by rank the `comm_id`.

    `comm_op` as `by_starts` needs it.
    """
    columns = ("group", "key", "start_ns", "comm_id")
    parts = [
        found.select(pl.lit(rank, dtype=pl.Int64).alias("rank"), *columns)
        for rank, rows in sorted(comm_op.items())
        if rows.height
        for found in (synchronising(rows), _pairs(rank, rows))
    ]
    if not parts:
        return []
    rows = pl.concat(parts).sort("start_ns", "rank")
    met = rows.group_by("group", "key", maintain_order=True).agg("rank", "comm_id")
    met = met.filter(pl.col("rank").list.n_unique() > 1)
    return [dict(zip(ranks, ids, strict=True)) for ranks, ids in met.select("rank", "comm_id").iter_rows()]
