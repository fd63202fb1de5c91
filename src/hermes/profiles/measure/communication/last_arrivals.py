"""Finds the last rank to arrive at each collective: by its starts on all ranks, else by the waits inside it.

A collective can begin when its last member arrives: until then the other members wait, and only the rest is transfer.
If the last member was not collected, waits that name their peer (`Notify_Wait` on Ascend) tell the arrival.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from hermes.model.step_measures import ArrivalWait
from hermes.model.tables.collective_keys import BETWEEN_TWO, ROOTED, keyed, synchronising
from hermes.profiles.measure.stack_rank_tables import stacked

# A group with more members is named by a digest of its members: each of its operations bears the name.
_SPELLED = 64
# The most other ranks for which a rank's waits are kept; a report's table shows the 1,024 longest waits of all.
_MOST_PEERS = 32
# Shorter waits are part of any transfer.
_SHORTEST_NS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The moment in ns at which a collective could begin on one rank: its last member arrived, on that rank's clock.

    `rank` is the last member, `comm_id` the operation's row on that member; None if the member was not collected. Only
    ranks that were not last themselves have an arrival.
    """

    at_ns: int
    rank: int
    comm_id: int | None


Arrivals = Mapping[int, Mapping[int, Arrival]]
"""Arrivals by rank and `comm_id`."""


def with_keys(rank: int, comm_op: pl.DataFrame) -> pl.DataFrame:
    """The operations of a rank with `manner` and `key`: both are equal on all ranks, and null without a partner.

    `manner` is `all` (no member leaves before all have arrived), `rooted` (a broadcast and the like) or `pair` (a send
    and its receive). `comm_op` is the result of `identified_operations`, with `comm_id, op, group, name, sequence,
    peer` and `start_ns`.
    """
    manners = (("all", synchronising(comm_op)), ("rooted", keyed(comm_op, ROOTED)), ("pair", _pairs(rank, comm_op)))
    keys = pl.concat([rows.select("comm_id", "key", pl.lit(manner).alias("manner")) for manner, rows in manners])
    return comm_op.join(keys, on="comm_id", how="left", maintain_order="left")


def operations_of_all_ranks(by_rank: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """The operations of all ranks as one frame, in rank order; each rank's operations come from `with_keys`."""
    return stacked(sorted(by_rank.items()))


def arrivals_by_starts(every: pl.DataFrame, clocks: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    """Arrivals by the starts on all ranks, for collectives that at least two ranks have.

    The columns are `rank`, `comm_id`, and for the member that came last `at_ns` (on the rank's own clock), `last` and
    `last_id`. A send and its receive count as a collective of two. `every` comes from `operations_of_all_ranks`;
    `clocks` holds, by rank, what to add to its times and the error of that, in ns. A lead within the errors of both
    clocks does not count, nor does a collective that a rank leaves before another arrives.
    """
    # Use integer codes: the texts stand in every row, and the rows of all ranks are copied more than once here.
    codes = (pl.col(name).cast(pl.Categorical).to_physical() for name in ("group", "key"))
    rows = rows_with_partners(every, clocks).filter(pl.col("manner") != "rooted").drop("manner").with_columns(codes)
    rows = rows.sort("aligned_ns", "rank")
    last = rows.group_by("group", "key", maintain_order=True).agg(
        pl.len().alias("members"),
        pl.col("rank").last().alias("last"),
        pl.col("comm_id").last().alias("last_id"),
        pl.col("aligned_ns").last().alias("at_ns"),
        pl.col("error_ns").last().alias("last_error_ns"),
        contradicted(
            pl.col("aligned_ns").last(), (pl.col("end_ns") + pl.col("offset_ns")).min(), pl.col("error_ns").max()
        ).alias("contradicted"),
    )
    met = last.filter((pl.col("members") > 1) & ~pl.col("contradicted"))
    late = rows.join(met, on=["group", "key"], how="inner").filter(
        (pl.col("rank") != pl.col("last"))
        & (pl.col("at_ns") - pl.col("aligned_ns") > pl.col("error_ns") + pl.col("last_error_ns"))
    )
    # An arrival after the end of the operation is the clock's error: then all of the operation was waiting.
    own = pl.min_horizontal(pl.col("at_ns") - pl.col("offset_ns"), "end_ns").alias("at_ns")
    return late.select("rank", "comm_id", own, "last", "last_id")


def rows_with_partners(every: pl.DataFrame, clocks: Mapping[int, tuple[int, int]]) -> pl.DataFrame:
    """The rows of all ranks that can have a partner on another rank: `group` and `key` are equal on both.

    The rows hold the start on the common clock, the end on the rank's own clock, and the clock offset with its error.
    The inputs are those of `arrivals_by_starts`.
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


def contradicted(last_start: pl.Expr, first_end: pl.Expr, error: pl.Expr) -> pl.Expr:
    """Whether operations cannot be one collective: no member can leave before the last has arrived."""
    return last_start > first_end + 2 * error


def identity(group: str, members: tuple[int, ...]) -> str:
    """The name that tells a group apart among all ranks: its key and its members in order, as far as recorded."""
    if len(members) <= _SPELLED:
        return f"{group} {members}" if members else group
    digest = hashlib.sha256(" ".join(map(str, members)).encode()).hexdigest()[:16]
    return f"{group} {len(members)} ranks {digest}"


def identified_operations(rank: int, comm_op: pl.DataFrame, group: pl.DataFrame) -> pl.DataFrame:
    """The operations of a rank with group names that are unique among all ranks, and with peers.

    Several groups of a job may bear one name (each stage has its own `dp`), so `group` includes the members if they are
    known. For sends and receives in a group of two, an unrecorded peer is the other member.
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
    """Sends and receives with a key that both sides have: from which rank to which, and a running number.

    A batch of sends and receives with one other rank has no direction. If the peer of one operation is unknown,
    operations of its kind in its group cannot be numbered, and get no key.
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


def longest_peer_waits(comm_task: pl.DataFrame) -> pl.DataFrame:
    """For each operation of one rank, the peer it waited for longest: `comm_id`, `late` and its arrival `peer_at_ns`.

    This tells the arrival of ranks that were not collected; for collected ranks the starts are more exact.

    Only waits for an arrival count: waits before the first transfer on their plane, or waits longer than any transfer
    of the operation. In a ring the straggler may be far away. All other waits end with a transfer of the peer. Needs
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
    """The last rank to arrive at each operation: the last collected rank, or a later rank that was not collected.

    `starts` comes from `arrivals_by_starts`. `late` comes from `longest_peer_waits`, with `rank`, for ranks that were
    not collected.
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
    """The arrivals of a frame by rank and `comm_id`; the arrivals of a rank are built at their first use."""

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
    """How long each rank waited in collectives for each other rank, longest first; overlapping waits count once.

    `every` comes from `operations_of_all_ranks`, `found` from `arrivals`. Each rank keeps the 32 ranks that it waited
    for longest.
    """
    own = ["rank", "last"]
    waits = found.join(every.select("rank", "comm_id", "start_ns"), on=["rank", "comm_id"], how="inner").with_columns(
        (pl.col("at_ns") - pl.col("start_ns")).clip(0).alias("length")
    )
    # Buckets of gradients are reduced side by side: a rank waits for the last member of several collectives at once.
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
    """The collectives, and the sends with their receives, that several ranks have: `comm_id` by rank.

    `every` comes from `operations_of_all_ranks`.
    """
    rows = every.filter(pl.col("manner").is_in(["all", "pair"])).with_columns(
        pl.when(pl.col("manner") == "pair").then(pl.lit("")).otherwise("group").alias("group")
    )
    met = rows.sort("start_ns", "rank").group_by("group", "key", maintain_order=True).agg("rank", "comm_id")
    met = met.filter(pl.col("rank").list.n_unique() > 1)
    return [dict(zip(ranks, ids, strict=True)) for ranks, ids in met.select("rank", "comm_id").iter_rows()]
