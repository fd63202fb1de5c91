"""Computes the top tables: kernels, operators, host calls and collectives, summed by name."""

from __future__ import annotations

from typing import TypeVar

import polars as pl

from hermes.knowledge.vendor_traits import CALL_KINDS
from hermes.model.step_measures import CommunicationTop, HostCallTop, KernelTop, OperatorTop, TopRow
from hermes.profiles.measure.registry import RankTables, per_rank

Top = TypeVar("Top", bound=TopRow)


def top_kernels(kernel: pl.DataFrame) -> tuple[KernelTop, ...]:
    """Compute and copy tasks by operator type, or by name if no type is recorded; `detail` is the unit."""
    rows = kernel.filter(pl.col("component").is_in(["compute", "copy"])).select(
        "rank",
        pl.coalesce("type", "name").alias("name"),
        pl.coalesce("unit", "component").alias("detail"),
        pl.col("dur_ns").alias("ns"),
    )
    return _top(KernelTop, rows)


def top_operators(host_op: pl.DataFrame) -> tuple[OperatorTop, ...]:
    """Framework operators by name, with their self time on the host (without the calls inside them)."""
    rows = host_op.filter(pl.col("kind") == "op").select(
        "rank", "name", pl.lit("host self time").alias("detail"), pl.col("self_ns").alias("ns")
    )
    return _top(OperatorTop, rows)


def top_calls(host_op: pl.DataFrame) -> tuple[HostCallTop, ...]:
    """Runtime and driver calls by name, with all calls inside them; `detail` is the layer."""
    rows = host_op.filter(pl.col("kind").is_in(CALL_KINDS)).select(
        "rank", "name", pl.col("kind").alias("detail"), pl.col("dur_ns").alias("ns")
    )
    return _top(HostCallTop, rows)


def top_communication(comm_op: pl.DataFrame, group: pl.DataFrame) -> tuple[CommunicationTop, ...]:
    """Collectives by operation and group."""
    names = group.group_by("group").agg(pl.col("name").drop_nulls().first().alias("group_name"))
    rows = comm_op.join(names, on="group", how="left").select(
        "rank",
        pl.col("op").alias("name"),
        pl.coalesce("group_name", "group", pl.lit("group not recorded")).alias("detail"),
        pl.col("dur_ns").alias("ns"),
    )
    return _top(CommunicationTop, rows)


def _top(kind: type[Top], rows: pl.DataFrame) -> tuple[Top, ...]:
    total = rows["ns"].sum() or 1
    summed = (
        rows.group_by("name", "detail")
        .agg(
            pl.col("rank").unique().sort().alias("ranks"),
            pl.len().alias("count"),
            pl.col("ns").sum().alias("total_ns"),
            pl.col("ns").min().alias("min_ns"),
            pl.col("ns").median().round().cast(pl.Int64).alias("median_ns"),
            pl.col("ns").max().alias("max_ns"),
        )
        .sort("total_ns", "name", "detail", descending=[True, False, False])
    )
    return tuple(
        kind(
            name=row["name"],
            detail=row["detail"],
            ranks=tuple(row["ranks"]),
            count=row["count"],
            total_ns=row["total_ns"],
            share=row["total_ns"] / total,
            min_ns=row["min_ns"],
            median_ns=row["median_ns"],
            max_ns=row["max_ns"],
        )
        for row in summed.iter_rows(named=True)
    )


@per_rank(KernelTop, needs={"kernel": ("rank", "component", "type", "name", "unit", "dur_ns")})
def kernels_of(rank: RankTables) -> tuple[KernelTop, ...]:
    """The kernels of a rank summed by name."""
    return top_kernels(rank.table("kernel"))


@per_rank(OperatorTop, needs={"host_op": ("rank", "kind", "name", "self_ns")})
def operators_of(rank: RankTables) -> tuple[OperatorTop, ...]:
    """The operators of a rank summed by name."""
    return top_operators(rank.table("host_op"))


@per_rank(HostCallTop, needs={"host_op": ("rank", "kind", "name", "dur_ns")})
def calls_of(rank: RankTables) -> tuple[HostCallTop, ...]:
    """The runtime calls of a rank summed by name."""
    return top_calls(rank.table("host_op"))


@per_rank(CommunicationTop, needs={"comm_op": ("rank", "op", "group", "dur_ns")})
def communication_of(rank: RankTables) -> tuple[CommunicationTop, ...]:
    """The collectives of a rank summed by operation and group."""
    return top_communication(rank.table("comm_op"), rank.table("group"))
