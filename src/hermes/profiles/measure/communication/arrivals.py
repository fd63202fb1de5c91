"""Who arrived last at each collective: from its starts on all ranks, or from the waits inside it if ranks are missing.

A collective can begin when its last member arrives: until then the others wait for that one, and only what follows is
transfer. Where the last to arrive was not collected, the waits that name their peer (`Notify_Wait` on Ascend) tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from hermes.model.measures import ArrivalWait
from hermes.model.tables.collective import BETWEEN_TWO, ROOTED, keyed, synchronising
from hermes.profiles.measure.stacked import stacked

# Beyond so many members a group goes by a digest of them: each of its operations bears the name.
_SPELLED = 64
# Of so many others a rank's waits are told apart; the table of a report shows the longest 1,024 of all.
_MOST_PEERS = 32
# Shorter waits are part of any transfer.
_SHORTEST_NS = 20_000


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


def with_keys(rank: int, comm_op: pl.DataFrame) -> pl.DataFrame:
    """The operations of a rank with `manner` and `key`: what can have a partner has both, equal on all ranks.

    `manner` is `all` (nobody leaves before all have arrived), `rooted` (a broadcast and the like) or `pair` (a send and
    its receive). `comm_op` is what `identified` made, with `comm_id, op, group, name, sequence, peer` and `start_ns`.
    """
    manners = (("all", synchronising(comm_op)), ("rooted", keyed(comm_op, ROOTED)), ("pair", _pairs(rank, comm_op)))
    keys = pl.concat([rows.select("comm_id", "key", pl.lit(manner).alias("manner")) for manner, rows in manners])
    return comm_op.join(keys, on="comm_id", how="left", maintain_order="left")


def gathered(by_rank: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """The operations of all ranks as one frame, in rank order; each rank's as `with_keys` made them."""
    return stacked(sorted(by_rank.items()))


def by_starts(every: pl.DataFrame, clocks: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    """Arrivals from the starts on all ranks, of collectives that at least two ranks have.

    `rank`, `comm_id`, and of the member that came last `at_ns` (on the rank's own clock), `last` and `last_id`. A send
    and its receive are a collective of two. `every` is as `gathered` gives it; `clocks` holds by rank what to add to
    its times and the error of that, in nanoseconds. A lead that is within the errors of both clocks is none.
    """
    # As codes: the texts are on every row, and the rows of all ranks are copied more than once here.
    codes = (pl.col(name).cast(pl.Categorical).to_physical() for name in ("group", "key"))
    rows = joined(every, clocks).filter(pl.col("manner") != "rooted").drop("manner").with_columns(codes)
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
    own = pl.min_horizontal(pl.col("at_ns") - pl.col("offset_ns"), "end_ns").alias("at_ns")
    return late.select("rank", "comm_id", own, "last", "last_id")


def joined(every: pl.DataFrame, clocks: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    """The rows of all ranks that can have a partner on another rank: `group` and `key` are equal on both.

    With the start on the common clock, the end on the rank's own, and what was added with its error. Inputs as
    `by_starts`.
    """
    known = pl.DataFrame(
        [(rank, offset, error) for rank, (offset, error) in clocks.items()],
        schema={"rank": pl.Int64, "offset_ns": pl.Int64, "error_ns": pl.Int64},
        orient="row",
    )
    rows = every.filter(pl.col("key").is_not_null()).join(known, on="rank", how="left", maintain_order="left")
    offset = pl.col("offset_ns").fill_null(0)
    return rows.select(
        "rank",
        "comm_id",
        pl.when(pl.col("manner") == "pair").then(pl.lit("")).otherwise("group").alias("group"),
        "key",
        "manner",
        (pl.col("start_ns") + offset).alias("aligned_ns"),
        (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns"),
        offset,
        pl.col("error_ns").fill_null(0),
    )


def identity(group: str, members: tuple[int, ...]) -> str:
    """What tells a group apart among all ranks: its key and its members, as far as they are recorded, in order."""
    if len(members) <= _SPELLED:
        return f"{group} {members}" if members else group
    digest = hashlib.sha256(" ".join(map(str, members)).encode()).hexdigest()[:16]
    return f"{group} {len(members)} ranks {digest}"


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
    between = pl.col("op").is_in(BETWEEN_TWO)
    return comm_op.with_columns(
        pl.coalesce("peer", pl.when(between).then(other)).alias("peer"),
        pl.coalesce(pl.col("group").replace_strict(named, default=None, return_dtype=pl.String), "group").alias(
            "group"
        ),
    )


def _pairs(rank: int, comm_op: pl.DataFrame) -> pl.DataFrame:
    """Sends and receives with a key that both sides have: from whom to whom, and the how manieth.

    A batch of sends and receives with one other rank has no direction. Where the other side of one is not known, those
    of its kind in its group cannot be counted: which is the how manieth is not known of any.
    """
    rows = comm_op.filter(pl.col("op").is_in(BETWEEN_TWO))
    countable = pl.col("peer").is_not_null().all().over(pl.col("group").fill_null(""), "op")
    rows = rows.filter(countable & pl.col("peer").is_not_null())
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


def by_peer(comm_task: pl.DataFrame) -> pl.DataFrame:
    """Whom one rank waited for longest in each of its operations: `comm_id`, `late` and `peer_at_ns`, its arrival.

    It tells when a rank came that was not collected; of the others the starts say it better.

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
    )
    return longest.select(
        "comm_id", pl.col("peer_rank").alias("late"), (pl.col("start_ns") + pl.col("dur_ns")).alias("peer_at_ns")
    )


def arrivals(starts: pl.DataFrame, late: pl.DataFrame) -> pl.DataFrame:
    """Who held each operation up: the last of the ranks that were collected, or one that was not and came later.

    `starts` as `by_starts` gives it, `late` as `by_peer`, with `rank`, of ranks that were not collected.
    """
    both = starts.join(late, on=["rank", "comm_id"], how="full", coalesce=True)
    later = pl.col("at_ns").is_null() | (pl.col("at_ns") < pl.col("peer_at_ns")).fill_null(value=False)
    return both.select(
        "rank",
        "comm_id",
        pl.when(later).then("peer_at_ns").otherwise("at_ns").alias("at_ns"),
        pl.when(later).then("late").otherwise("last").alias("last"),
        pl.when(later).then(None).otherwise("last_id").alias("last_id"),
    )


class ArrivalsByRank(Mapping[int, Mapping[int, Arrival]]):
    """The arrivals of a frame by rank and `comm_id`; those of a rank are made when they are asked for."""

    def __init__(self, found: pl.DataFrame, ranks: Collection[int]) -> None:
        self._ranks = ranks
        self._of = {int(str(key[0])): rows for key, rows in found.partition_by("rank", as_dict=True).items()}
        self._made: dict[int, Mapping[int, Arrival]] = {}

    def __getitem__(self, rank: int) -> Mapping[int, Arrival]:
        if rank not in self._ranks:
            raise KeyError(rank)
        if rank not in self._made:
            rows = self._of[rank].select("comm_id", "at_ns", "last", "last_id").iter_rows() if rank in self._of else ()
            self._made[rank] = {
                comm_id: Arrival(at_ns=at_ns, rank=last, comm_id=last_id) for comm_id, at_ns, last, last_id in rows
            }
        return self._made[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._ranks)

    def __len__(self) -> int:
        return len(self._ranks)


def rank_waits(every: pl.DataFrame, found: pl.DataFrame, collected: Collection[int]) -> tuple[ArrivalWait, ...]:
    """How long each rank waited in collectives for each other, the longest first; what waits at once counts once.

    `every` as `gathered` gives it, `found` as `arrivals` does. Of each rank the 32 that it waited for longest.
    """
    own = ["rank", "last"]
    waits = found.join(every.select("rank", "comm_id", "start_ns"), on=["rank", "comm_id"], how="inner").with_columns(
        (pl.col("at_ns") - pl.col("start_ns")).clip(0).alias("length")
    )
    # Gradients in buckets are reduced side by side: a rank waits for the last member of several at once.
    end = pl.col("start_ns") + pl.col("length")
    waits = waits.sort("rank", "last", "start_ns").with_columns(end.cum_max().shift(1).over(own).alias("reach"))
    new = (end - pl.max_horizontal("start_ns", "reach")).clip(0)
    longest = pl.col("length") == pl.col("length").max()
    summed = (
        waits.group_by(own)
        .agg(
            pl.len().alias("waits"),
            new.sum().alias("total_ns"),
            pl.col("length").max().alias("longest_ns"),
            pl.col("start_ns").filter(longest).min().alias("longest_at_ns"),
        )
        .sort("total_ns", "rank", "last", descending=[True, False, False])
        .filter(pl.int_range(pl.len()).over("rank") < _MOST_PEERS)
    )
    ranks = frozenset(collected)
    return tuple(
        ArrivalWait(
            rank=row["rank"],
            peer=row["last"],
            peer_collected=row["last"] in ranks,
            waits=row["waits"],
            total_ns=row["total_ns"],
            longest_ns=row["longest_ns"],
            longest_at_ns=row["longest_at_ns"],
            source="starts of collectives on all ranks",
            disjoint=True,
        )
        for row in summed.iter_rows(named=True)
    )


def meetings(every: pl.DataFrame) -> list[dict[int, int]]:
    """The collectives, and the sends with their receives, that several ranks have: by rank the `comm_id`.

    `every` as `gathered` gives it.
    """
    rows = every.filter(pl.col("manner").is_in(["all", "pair"])).with_columns(
        pl.when(pl.col("manner") == "pair").then(pl.lit("")).otherwise("group").alias("group")
    )
    met = rows.sort("start_ns", "rank").group_by("group", "key", maintain_order=True).agg("rank", "comm_id")
    met = met.filter(pl.col("rank").list.n_unique() > 1)
    return [dict(zip(ranks, ids, strict=True)) for ranks, ids in met.select("rank", "comm_id").iter_rows()]
