"""Measures how long each rank of a group waits for the last rank. A rank that never waits is the late one."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from hermes.model.comm_measures import GroupArrival
from hermes.profiles.measure.communication.group_ops import parallel_of
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo


def group_arrivals(rows: pl.DataFrame, groups: Mapping[str, GroupInfo], world: int) -> tuple[GroupArrival, ...]:
    """One row for each rank of each group with at least two captured ranks, in rank order.

    Groups with the longest waits come first. `rows` come from `collectives.operations`. Operations in which no rank
    waits for all others (broadcasts, sends), and operations with an unknown last arrival, are left out.
    """
    found_in = rows.lazy().filter(pl.col("split") & (pl.col("manner") == "all"))
    judged = found_in.select("group", "rank", "last", "op", "wait_ns").collect()
    if not judged.height:
        return ()
    wait = pl.col("wait_ns")
    own = judged.group_by("group", "rank").agg(
        pl.len().alias("operations"),
        (pl.col("last") == pl.col("rank")).sum().alias("last"),
        wait.median().alias("median_ns"),
        wait.quantile(0.9, interpolation="nearest").alias("p90_ns"),
        wait.max().alias("most_ns"),
        wait.sum().alias("total_ns"),
    )
    ops = {group: set(found) for group, found in judged.group_by("group").agg(pl.col("op").unique()).iter_rows()}
    shared = own.with_columns(
        pl.len().over("group").alias("ranks"),
        pl.col("total_ns").sum().over("group").alias("sum"),
        pl.col("rank").min().over("group").alias("first_rank"),
    )
    found = []
    for row in (
        shared.filter(pl.col("ranks") > 1)
        .sort("sum", "group", "rank", descending=[True, False, False])
        .iter_rows(named=True)
    ):
        group = row["group"] or ""
        info = groups.get(group, GroupInfo(label=group or "not recorded", members=None, size=None))
        found.append(
            GroupArrival(
                group=info.label, first_rank=row["first_rank"], parallel=parallel_of(info, ops[row["group"]], world)[0],
                rank=row["rank"], operations=row["operations"], last=row["last"],
                median_wait_ns=round(row["median_ns"]), p90_wait_ns=round(row["p90_ns"]), most_wait_ns=row["most_ns"],
                total_wait_ns=row["total_ns"],
            )
        )  # fmt: skip
    return tuple(found)
