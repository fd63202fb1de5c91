"""Measures how long each rank waits for each other rank in communication, and the speed of each rank's links."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from hermes.model.step_measures import LinkSpeed, TaskWait
from hermes.profiles.measure.registry import RankTables, per_rank


def peer_waits(comm_task: pl.DataFrame, collected: Collection[int]) -> tuple[TaskWait, ...]:
    """Waits by waiting rank and awaited rank, longest first; also for ranks that were not collected.

    A wait is the sum of all `notify_wait` tasks that name the peer, over all planes. Waits on several planes may run at
    the same time, so the sum can exceed the time that passed. `step` marks do not matter here.
    """
    named = pl.col("peer_rank").is_not_null() & (pl.col("peer_rank") != pl.col("rank"))
    waits = (
        comm_task.filter((pl.col("task") == "notify_wait") & named)
        .sort("dur_ns", "start_ns", descending=[True, False])
        .group_by("rank", "peer_rank", maintain_order=True)
        .agg(
            pl.len().alias("waits"),
            pl.col("dur_ns").sum().alias("total_ns"),
            pl.col("dur_ns").first().alias("longest_ns"),
            pl.col("start_ns").first().alias("longest_at_ns"),
        )
        .sort("total_ns", "rank", "peer_rank", descending=[True, False, False])
    )
    return tuple(
        TaskWait(
            rank=row["rank"],
            peer=row["peer_rank"],
            peer_collected=row["peer_rank"] in collected,
            waits=row["waits"],
            total_ns=row["total_ns"],
            longest_ns=row["longest_ns"],
            longest_at_ns=row["longest_at_ns"],
        )
        for row in waits.iter_rows(named=True)
    )


def link_speeds(comm_task: pl.DataFrame, comm_traffic: pl.DataFrame) -> tuple[LinkSpeed, ...]:
    """Bytes over time of the transfers between devices, by rank and link.

    Single transfers are used if they are recorded (a move within the chip is no link), else the profiler's sums.
    """
    moves = comm_task.filter(
        (pl.col("bytes") > 0) & (pl.col("dur_ns") > 0) & (pl.col("link").fill_null("") != "ON_CHIP")
    )
    moves = moves.filter(pl.col("transport").fill_null("") != "LOCAL").select(
        "rank",
        pl.coalesce("link", "transport", pl.lit("unknown")).alias("transport"),
        "bytes",
        pl.col("dur_ns").alias("time_ns"),
    )
    if not moves.height:
        moves = comm_traffic.filter(
            pl.col("packet_bytes").is_null()
            & (pl.col("name") != "Total Op Info")
            & (pl.col("transport") != "SDMA")
            & (pl.col("time_ns") > 0)
        ).select("rank", "transport", "bytes", "time_ns")
    summed = (
        moves.group_by("rank", "transport")
        .agg(pl.col("bytes").sum(), pl.col("time_ns").sum())
        .sort("rank", "transport")
    )
    return tuple(
        LinkSpeed(
            rank=row["rank"],
            transport=row["transport"],
            bytes=row["bytes"],
            time_ns=row["time_ns"],
            gb_per_s=row["bytes"] / row["time_ns"],
        )
        for row in summed.iter_rows(named=True)
    )


_COMM_TASK = ("rank", "comm_id", "task", "peer_rank", "start_ns", "dur_ns", "bytes", "transport", "link")


@per_rank(TaskWait, needs={"comm_task": _COMM_TASK})
def waits_of(rank: RankTables) -> tuple[TaskWait, ...]:
    """The waits of a rank for its peers; whether the peers were collected is unknown here."""
    return peer_waits(rank.table("comm_task"), ())


@per_rank(LinkSpeed, needs={"comm_task": _COMM_TASK}, beside=("comm_traffic",))
def links_of(rank: RankTables) -> tuple[LinkSpeed, ...]:
    """The link speeds of a rank, by transport."""
    return link_speeds(rank.table("comm_task"), rank.table("comm_traffic"))
