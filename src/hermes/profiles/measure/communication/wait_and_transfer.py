"""Splits each communication operation of each rank at the arrival of its last member, into wait and transfer.

`elapse = wait + transfer + idle`: a rank waits until the last member arrives; the rest is transfer. Time in which none
of the operation's tasks ran counts as idle: the host had not launched them yet. The last arrival is taken from the
starts on all ranks, on aligned clocks. If members were not collected, it is taken from waits that name their peer.
Without either source the operation is not split: its last rank is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, covered_lengths, union_of_intervals
from hermes.knowledge.links import PART_OF_HCCL
from hermes.knowledge.vendor_traits import SHOWN_AS_OPERATIONS
from hermes.profiles.measure.communication.last_arrivals import contradicted, identity, rows_with_partners
from hermes.profiles.measure.stack_rank_tables import left_join_in_order


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """A process group: its display name, its global ranks if all are known, and its number of ranks.

    `source` says whether these were recorded, or inferred from the operations of the ranks.
    """

    label: str
    members: tuple[int, ...] | None
    size: int | None
    source: Literal["recorded", "inferred"] = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """All operations: `rows` of each rank, and `instances`, with one row for the same operation on several ranks.

    `rows` has the columns of `_ROWS` and `manner`, `key`, `split`, `matched`, `last` (the rank that arrived last),
    `wait_ns`, `time_ns` (from the last arrival to the end; leads within the error count too), `arrival_ns` (on the
    rank's own clock), and `error_ns`. `instances` has `group`, `key`, `manner`, `step`, `seen`, `complete`, `matched`,
    `last`, `last_ns`, `second_ns` (on the common clock; null for one rank) and `error_ns`.
    """

    rows: pl.DataFrame
    instances: pl.DataFrame


_ROWS = ("comm_id", "op", "group", "name", "library", "step", "peer", "bytes", "start_ns", "dur_ns")
ID = ["manner", "group", "key"]
"""The columns that name one operation on all of its ranks."""


def group_info(group: pl.DataFrame) -> dict[str, GroupInfo]:
    """The groups that a rank knows, by their identities (`arrivals.identity`)."""
    found: dict[str, GroupInfo] = {}
    summed = (
        group.sort("group", "member")
        .group_by("group", maintain_order=True)
        .agg(pl.col("name").drop_nulls().first(), pl.col("global_rank"))
    )
    for key, name, ranks in summed.iter_rows():
        known = tuple(sorted(rank for rank in ranks if rank is not None))
        whole = known if len(known) == len(ranks) else None
        found[identity(key, known)] = GroupInfo(label=name or key, members=whole, size=len(ranks) or None)
    return found


def operations(
    every: pl.DataFrame, clocks: Mapping[int, tuple[int, int]], late: pl.DataFrame, groups: Mapping[str, GroupInfo]
) -> Operations:
    """Every operation of every rank, split if the last arrival is known.

    `every` is the frame of `last_arrivals.operations_of_all_ranks` with `named`: whether the operation has recorded
    waits by peer. `clocks` is as for `last_arrivals.arrivals_by_starts`. `late` is the frame of
    `last_arrivals.longest_peer_waits` with `rank`, about ranks that were not collected. `groups` is keyed by identity.
    """
    base = _base(every, groups)
    rows = rows_with_partners(every, clocks)
    late = late.join(rows.select("rank", "comm_id", *ID, "offset_ns"), on=["rank", "comm_id"], how="inner")
    instances = _instances(rows, every, late, groups)
    split = (
        rows.join(instances.drop("step", "error_ns"), on=ID, how="left")
        .join(late.select("rank", "comm_id", "peer_at_ns"), on=["rank", "comm_id"], how="left")
        .with_columns((pl.col("end_ns") + pl.col("offset_ns") - pl.col("aligned_ns")).alias("dur_ns"))
    )
    lead = pl.col("last_ns") - pl.col("aligned_ns")
    told = pl.when(lead > pl.col("error_ns") + pl.col("last_error_ns")).then(lead).otherwise(0)
    # A wait that names its peer is on the rank's own clock.
    named = pl.col("peer_at_ns") + pl.col("offset_ns") - pl.col("aligned_ns")
    rooted = pl.when(pl.col("manner") == "rooted").then(pl.col("dur_ns") - pl.col("quickest_ns"))
    wait = rooted.otherwise(pl.max_horizontal(told, named))
    # The time of an operation does not claim which rank was late: leads within the error count, for the best estimate.
    likely = rooted.otherwise(pl.max_horizontal(lead, named))
    good = pl.col("complete") & pl.col("matched")
    split = split.select(
        "rank",
        "comm_id",
        "error_ns",
        "matched",
        "last",
        good.alias("split"),
        pl.when(good).then(pl.min_horizontal(wait, "dur_ns").clip(0)).alias("wait_ns"),
        pl.when(good).then(pl.col("dur_ns") - pl.min_horizontal(likely, "dur_ns").clip(0)).alias("time_ns"),
    )
    made = left_join_in_order(base, split, ["rank", "comm_id"]).with_columns(
        pl.col("split").fill_null(value=False),
        (pl.col("start_ns") + pl.col("wait_ns")).alias("arrival_ns"),
    )
    return Operations(rows=made, instances=instances)


def _base(every: pl.DataFrame, groups: Mapping[str, GroupInfo]) -> pl.DataFrame:
    """The rows of all ranks; `bytes` is the size as nccl-tests define it, `own_bytes` the recorded size."""
    sizes = {identity: info.size for identity, info in groups.items() if info.size}
    size = pl.col("group").replace_strict(sizes, default=None, return_dtype=pl.Int64)
    part = (pl.col("library") == SHOWN_AS_OPERATIONS) & pl.col("name").str.contains(PART_OF_HCCL)
    return (
        every.select("rank", *_ROWS, "manner", "key")
        .with_columns(pl.when(pl.col("key").is_not_null()).then("manner").alias("manner"))
        .with_columns(size.alias("size"), pl.col("bytes").alias("own_bytes"))
        .with_columns(
            pl.when(part.fill_null(value=False))
            .then(pl.col("bytes") * pl.col("size"))
            .otherwise("bytes")
            .alias("bytes")
        )
    )


def _instances(
    rows: pl.DataFrame, every: pl.DataFrame, late: pl.DataFrame, groups: Mapping[str, GroupInfo]
) -> pl.DataFrame:
    marked = rows.join(every.select("rank", "comm_id", "step", "named"), on=["rank", "comm_id"], how="left")
    marked = marked.with_columns((pl.col("end_ns") + pl.col("offset_ns")).alias("out_ns")).sort("aligned_ns", "rank")
    made = marked.group_by(ID, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("seen"),
        pl.col("step").min(),
        pl.col("rank").last().alias("last"),
        pl.col("aligned_ns").last().alias("last_ns"),
        pl.when(pl.len() > 1).then(pl.col("aligned_ns").get(-2, null_on_oob=True)).first().alias("second_ns"),
        pl.col("error_ns").last().alias("last_error_ns"),
        pl.col("error_ns").max(),
        pl.col("out_ns").min().alias("first_out_ns"),
        (pl.col("out_ns") - pl.col("aligned_ns")).min().alias("quickest_ns"),
        pl.col("named").any().fill_null(value=False),
    )
    sizes = {identity: info.size for identity, info in groups.items() if info.size}
    size = (
        pl.when(pl.col("manner") == "pair")
        .then(2)
        .otherwise(pl.col("group").replace_strict(sizes, default=None, return_dtype=pl.Int64))
    )
    # The last uncollected rank counts only if it comes after the last collected rank.
    beyond = late.group_by(ID).agg(
        (pl.col("peer_at_ns") + pl.col("offset_ns")).max().alias("late_ns"),
        pl.col("late").sort_by(pl.col("peer_at_ns") + pl.col("offset_ns")).last(),
    )
    later = pl.col("late_ns") > pl.col("last_ns")
    made = made.join(beyond, on=ID, how="left", maintain_order="left").with_columns(
        ((pl.col("seen") >= size) | (pl.col("named") & (pl.col("manner") != "rooted")))
        .fill_null(value=False)
        .alias("complete"),
        pl.when(later).then("late").otherwise("last").alias("last"),
        pl.when(later).then("late_ns").otherwise("last_ns").alias("last_ns"),
        pl.when(later).then("last_ns").otherwise("second_ns").alias("second_ns"),
    )
    # No member can leave before the last has arrived: rows that contradict this do not belong to one operation.
    early = contradicted(pl.col("last_ns"), pl.col("first_out_ns"), pl.col("error_ns"))
    return made.with_columns((~early | (pl.col("manner") == "rooted")).alias("matched")).drop(
        "late", "late_ns", "named"
    )


def with_tasks(own: pl.DataFrame, comm_task: pl.DataFrame) -> pl.DataFrame:
    """The rows of one rank with `idle_ns`: how long after the last arrival none of the operation's tasks ran.

    `idle_ns` is null if no task of the operation is recorded. `comm_task` needs `comm_id, start_ns, dur_ns`.
    """
    tasks = comm_task.filter(pl.col("comm_id").is_not_null()).select("comm_id", "start_ns", "dur_ns")
    begun = own.select(
        "comm_id", pl.col("start_ns").alias("op_ns"), pl.col("dur_ns").alias("op_dur_ns")
    ).with_row_index("place")
    tasks = tasks.join(begun, on="comm_id", how="inner")
    if not tasks.height:
        return own.with_columns(pl.lit(None, dtype=pl.Int64).alias("idle_ns"))
    # Operations of several groups overlap: each gets a stretch of its own on one long axis.
    stride = int(own["dur_ns"].to_numpy().max()) + 1
    place = tasks["place"].to_numpy().astype(np.int64) * stride
    lasts = tasks["op_dur_ns"].to_numpy()
    first = np.clip((tasks["start_ns"] - tasks["op_ns"]).to_numpy(), 0, lasts)
    last = np.clip((tasks["start_ns"] - tasks["op_ns"] + tasks["dur_ns"]).to_numpy(), 0, lasts)
    busy = union_of_intervals(place + first, place + last)
    at = np.arange(own.height, dtype=np.int64) * stride
    wait = own["wait_ns"].fill_null(0).to_numpy()
    length = own["dur_ns"].to_numpy()
    idle = length - wait - covered_lengths(busy, at + wait, at + length)
    named = own["comm_id"].is_in(tasks["comm_id"].unique().to_list())
    return own.with_columns(
        pl.when(named & pl.col("split")).then(pl.Series(idle, dtype=pl.Int64)).alias("idle_ns"),
    )


def with_compute(own: pl.DataFrame, compute: Intervals) -> pl.DataFrame:
    """The rows of one rank with `hidden_ns`: compute time beside the transfer, or beside an unsplit operation."""
    starts = pl.coalesce("arrival_ns", "start_ns")
    begin = own.select(starts)["arrival_ns"].to_numpy()
    end = (own["start_ns"] + own["dur_ns"]).to_numpy()
    return own.with_columns(pl.Series("hidden_ns", covered_lengths(compute, begin, end), dtype=pl.Int64))
