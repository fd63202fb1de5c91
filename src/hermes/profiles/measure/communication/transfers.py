"""Measures single transfers: the speed of each link against its peers, packet sizes, alignment and stalls.

Each rank's transfers are summed by link, kind, size and step while its tables are loaded; only these sums are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from hermes.base.significance import among, binomial_tail
from hermes.knowledge.links import link_spec
from hermes.model.comm_measures import Alignment, LinkPair, Packets, Stall

ALIGNED_BYTES = 512
"""The bytes of a line that SDMA moves as a whole: byte alignment rule of msprof-analyze and MindStudio Insight."""
STALLED = 10
"""The factor over the usual time from which a transfer counts as stalled.

A retransmission waits for a timeout, which is set to 4.096 us * 2^20 = 4.3 s by default and never below milliseconds,
while transfers take microseconds to milliseconds.
"""
_STALLED_AT_LEAST_NS = 1_000_000
_USUAL_OF = 4
"""The fewest equal transfers that tell the usual time."""
_MOST_PAIRS = 1_024
_SLOWER = 1.05
"""A link is slower than its peers from 5 % on, the margin of msprof-analyze.

Links are never quite equal: without a margin enough samples make any difference significant.
"""
_CLASS = ["transport", "task", "bytes"]


def first_of_longest(begin: pl.Expr, length: pl.Expr) -> pl.Expr:
    """The begin in ns of the longest of some transfers; of equally long transfers, the first."""
    return begin.filter(length == length.max()).min()


def moves_of(comm_task: pl.DataFrame) -> pl.DataFrame:
    """The transfers between devices: tasks that move bytes, except moves within a chip.

    `transport` is the link if it is recorded (`HCCS`, `ROCE`, …), else the transport.
    """
    moving = (pl.col("bytes") > 0) & (pl.col("dur_ns") > 0) & (pl.col("link").fill_null("") != "ON_CHIP")
    return comm_task.filter(moving & (pl.col("transport").fill_null("") != "LOCAL")).with_columns(
        pl.coalesce("link", "transport", pl.lit("unknown")).alias("transport")
    )


def transfer_sums(own: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """The transfers of one rank by link, kind, size and step: their number, time, median, and stalled part."""
    rows = moves.join(own.select("comm_id", "step"), on="comm_id", how="left")
    link = ["rank", "peer_rank", *_CLASS]
    # A link with enough samples is compared with its own usual time; other links with all links of their kind.
    usual = (
        pl.when(pl.len().over(link) >= _USUAL_OF)
        .then(pl.col("dur_ns").median().over(link))
        .otherwise(pl.when(pl.len().over(_CLASS) >= _USUAL_OF).then(pl.col("dur_ns").median().over(_CLASS)))
    )
    over = pl.col("dur_ns") - pl.col("usual_ns")
    stalled = ((pl.col("dur_ns") >= STALLED * pl.col("usual_ns")) & (over >= _STALLED_AT_LEAST_NS)).fill_null(
        value=False
    )
    begun, lengths = (pl.col(name).filter(pl.col("stalled")) for name in ("start_ns", "dur_ns"))
    return (
        rows.with_columns(usual.alias("usual_ns"))
        .with_columns(stalled.alias("stalled"))
        .group_by(*link, "step")
        .agg(
            pl.len().cast(pl.Int64).alias("n"),
            pl.col("dur_ns").sum().alias("time_ns"),
            pl.col("dur_ns").median().alias("median_ns"),
            pl.col("stalled").sum().cast(pl.Int64),
            over.filter(pl.col("stalled")).sum().alias("stalled_ns"),
            lengths.max().alias("longest_ns"),
            first_of_longest(begun, lengths).alias("at_ns"),
        )
    )


def link_pairs(sums: pl.DataFrame, reported: pl.DataFrame, chips: Mapping[int, str | None]) -> tuple[LinkPair, ...]:
    """Every link by the rank that used it and its peer, most excess time first; at most 1,024 links.

    If no transfer is recorded, the profiler's own sums (`comm_link`, with `rank, peer_rank, transport, bytes` and
    `time_ns`) give the speeds, without a comparison.
    """
    known = sums.filter(pl.col("peer_rank").is_not_null())
    if not known.height:
        return tuple(_reported(row, chips) for row in _totals(reported).head(_MOST_PAIRS).iter_rows(named=True))
    compared = _compared(known)
    rows = compared.sort(
        "excess_ns", "time_ns", "rank", "peer_rank", descending=[True, True, False, False], nulls_last=True
    )
    links = rows.height
    return tuple(_pair(row, links, chips) for row in rows.head(_MOST_PAIRS).iter_rows(named=True))


def _compared(known: pl.DataFrame) -> pl.DataFrame:
    """Each link, compared by class with the median of the other links of the same class and step."""
    where = [*_CLASS, "step"]
    peers = known.with_columns(
        pl.len().over(where).alias("links"),
        pl.col("median_ns").median().over(where).alias("usual_ns"),
    )
    ratio = pl.col("median_ns") / pl.col("usual_ns")
    fair = pl.col("links") > 2
    smooth = pl.col("time_ns") - pl.col("stalled_ns")
    return peers.group_by("rank", "peer_rank", "transport").agg(
        pl.col("n").sum(),
        (pl.col("n") * pl.col("bytes")).sum().alias("bytes"),
        pl.col("time_ns").sum(),
        ratio.filter(fair).median().alias("ratio"),
        fair.sum().cast(pl.Int64).alias("compared"),
        (fair & (ratio > _SLOWER)).sum().cast(pl.Int64).alias("slower"),
        pl.when(fair.any()).then((smooth - pl.col("n") * pl.col("usual_ns")).filter(fair).sum()).alias("excess_ns"),
    )


def _pair(row: Mapping[str, Any], links: int, chips: Mapping[int, str | None]) -> LinkPair:
    speed = row["bytes"] / row["time_ns"]
    known = link_spec(chips.get(row["rank"]), row["transport"])
    return LinkPair(
        rank=row["rank"],
        peer=row["peer_rank"],
        transport=row["transport"],
        source="tasks",
        transfers=row["n"],
        bytes=row["bytes"],
        time_ns=row["time_ns"],
        gb_per_s=speed,
        of_link=speed / known.gb_per_s if known else None,
        ratio=row["ratio"],
        compared=row["compared"],
        slower=row["slower"],
        excess_ns=None if row["excess_ns"] is None else round(row["excess_ns"]),
        p_value=among(binomial_tail(row["slower"], row["compared"], 0.5), links) if row["compared"] else None,
    )


def reported_links(comm_link: pl.DataFrame, group: pl.DataFrame) -> pl.DataFrame:
    """The profiler's own sums by link, with global ranks: only the totals, since its other rows repeat them."""
    members = group.select("group", "member", "global_rank").unique(["group", "member"])
    rows = comm_link.filter(
        pl.col("name").str.ends_with("-total") & (pl.col("src_rank") != pl.col("dst_rank")) & (pl.col("time_ns") > 0)
    )
    for side in ("src", "dst"):
        rows = rows.join(
            members.rename({"member": f"{side}_rank", "global_rank": f"{side}_global"}),
            on=["group", f"{side}_rank"],
            how="left",
        )
    return rows.filter(pl.col("src_global").is_not_null() & pl.col("dst_global").is_not_null()).select(
        pl.col("src_global").alias("rank"),
        pl.col("dst_global").alias("peer_rank"),
        pl.col("transport").fill_null("unknown"),
        "bytes",
        "time_ns",
    )


def _totals(reported: pl.DataFrame) -> pl.DataFrame:
    return (
        reported.group_by("rank", "peer_rank", "transport")
        .agg(pl.col("bytes").sum(), pl.col("time_ns").sum())
        .sort("time_ns", "rank", "peer_rank", descending=[True, False, False])
    )


def _reported(row: Mapping[str, Any], chips: Mapping[int, str | None]) -> LinkPair:
    speed = row["bytes"] / row["time_ns"]
    known = link_spec(chips.get(row["rank"]), row["transport"])
    return LinkPair(
        rank=row["rank"],
        peer=row["peer_rank"],
        transport=row["transport"],
        source="sums",
        transfers=None,
        bytes=row["bytes"],
        time_ns=row["time_ns"],
        gb_per_s=speed,
        of_link=speed / known.gb_per_s if known else None,
        ratio=None,
        compared=0,
        slower=0,
        excess_ns=None,
        p_value=None,
    )


def packets(sums: pl.DataFrame) -> tuple[Packets, ...]:
    """Transfers by transport and size, in powers of two."""
    if not sums.height:
        return ()
    power = pl.col("bytes").log(2).floor().cast(pl.Int64)
    rows = (
        sums.with_columns(pl.lit(2).cast(pl.Int64).pow(power).cast(pl.Int64).alias("least"))
        .group_by("transport", "least")
        .agg(pl.col("n").sum(), (pl.col("n") * pl.col("bytes")).sum().alias("size"), pl.col("time_ns").sum())
        .sort("transport", "least")
    )
    return tuple(
        Packets(
            transport=row["transport"],
            least_bytes=row["least"],
            transfers=row["n"],
            bytes=row["size"],
            time_ns=row["time_ns"],
            gb_per_s=row["size"] / row["time_ns"],
        )
        for row in rows.iter_rows(named=True)
    )


def alignment(sums: pl.DataFrame, rows: pl.DataFrame) -> tuple[Alignment, ...]:
    """Unaligned sizes of each transport's transfers, and of whole operations (their time from the last arrival on)."""
    whole = rows.filter(pl.col("split") & (pl.col("bytes") > 0)).select(
        pl.lit("operations").alias("what"),
        pl.lit(1, dtype=pl.Int64).alias("n"),
        pl.col("own_bytes").alias("bytes"),
        "time_ns",
    )
    single = sums.select(pl.col("transport").alias("what"), "n", "bytes", "time_ns")
    odd = (pl.col("bytes") > ALIGNED_BYTES) & (pl.col("bytes") % ALIGNED_BYTES != 0)
    size = pl.col("n") * pl.col("bytes")
    made = (
        pl.concat([single, whole])
        .group_by("what")
        .agg(
            pl.col("n").sum(),
            pl.col("n").filter(odd).sum().alias("odd"),
            pl.col("time_ns").sum(),
            pl.col("time_ns").filter(odd).sum().alias("odd_ns"),
            size.filter(~odd).sum().alias("even_bytes"),
            size.filter(odd).sum().alias("odd_bytes"),
        )
        .sort("what")
    )
    return tuple(
        Alignment(
            what=row["what"],
            counted=row["n"],
            unaligned=row["odd"],
            time_ns=row["time_ns"],
            unaligned_time_ns=row["odd_ns"],
            gb_per_s=_speed(row["even_bytes"], row["time_ns"] - row["odd_ns"]),
            unaligned_gb_per_s=_speed(row["odd_bytes"], row["odd_ns"]),
        )
        for row in made.iter_rows(named=True)
    )


def _speed(size: int, time_ns: int) -> float | None:
    return size / time_ns if size and time_ns else None


def stalls(sums: pl.DataFrame, rows: pl.DataFrame) -> tuple[Stall, ...]:
    """Stalled transfers by rank and transport; stalled operations if no rank recorded its transfers.

    A stalled operation belongs to no single rank: all its members wait for the one transfer that stalled.
    """
    if sums.height:
        made = sums.group_by("rank", pl.col("transport").alias("what")).agg(
            pl.col("n").sum(),
            pl.col("stalled").sum(),
            pl.col("stalled_ns").sum(),
            pl.col("longest_ns").max(),
            first_of_longest(pl.col("at_ns"), pl.col("longest_ns")),
        )
    else:
        made = _stalled_operations(rows.filter(pl.col("split") & (pl.col("bytes") > 0)))
    made = made.filter(pl.col("stalled") > 0).sort("stalled_ns", "rank", "what", descending=[True, False, False])
    return tuple(
        Stall(
            rank=row["rank"],
            what=row["what"],
            counted=row["n"],
            stalled=row["stalled"],
            excess_ns=round(row["stalled_ns"]),
            longest_ns=row["longest_ns"],
            longest_at_ns=row["at_ns"],
        )
        for row in made.head(_MOST_PAIRS).iter_rows(named=True)
    )


def _stalled_operations(timed: pl.DataFrame) -> pl.DataFrame:
    """One row for each kind of operation, with the operations that took far longer than others, each once."""
    whole = timed.group_by("op", "group", "bytes", "manner", "key").agg(
        pl.col("time_ns").median(),
        pl.col("arrival_ns").min().alias("start_ns"),
    )
    kind = ["group", "op", "bytes"]
    usual = pl.when(pl.len().over(kind) >= _USUAL_OF).then(pl.col("time_ns").median().over(kind))
    whole = whole.with_columns(usual.alias("usual_ns"))
    over = pl.col("time_ns") - pl.col("usual_ns")
    stalled = ((pl.col("time_ns") >= STALLED * pl.col("usual_ns")) & (over >= _STALLED_AT_LEAST_NS)).fill_null(
        value=False
    )
    whole = whole.with_columns(stalled.alias("stalled"))
    chosen = pl.col("stalled")
    begun, lengths = (pl.col(name).filter(chosen) for name in ("start_ns", "time_ns"))
    return whole.group_by(pl.format("operations: {}", "op").alias("what")).agg(
        pl.lit(None, dtype=pl.Int64).alias("rank"),
        pl.len().cast(pl.Int64).alias("n"),
        chosen.sum().cast(pl.Int64).alias("stalled"),
        over.filter(chosen).sum().alias("stalled_ns"),
        lengths.max().cast(pl.Int64).alias("longest_ns"),
        first_of_longest(begun, lengths).alias("at_ns"),
    )  # fmt: skip
