"""Measures the balance of single expert operators (grouped products) over the ranks of a group.

The n-th expert operator of a step is the same layer on every rank of a group: each rank runs the same layers in one
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from hermes.model.structure_measures import ExpertOperator

MOST_CALLS = 8_192
"""The most calls that a rank may send: the calls of the first steps that fit."""
MOST = 20
_LEAST_RANKS = 2


def expert_calls_of(calls: pl.DataFrame) -> pl.DataFrame:
    """The grouped products of one rank as `step, place, name, tokens`, from their `step, name, start_ns, shapes`.

    `place` counts the products from 0 within their step. Steps beyond `MOST_CALLS` calls are left out, except the first
    step.
    """
    owned = calls.filter(pl.col("step").is_not_null()).sort("step", "start_ns", maintain_order=True)
    rows = owned.select(
        "step", pl.int_range(pl.len()).over("step").alias("place"), "name",
        pl.col("shapes").str.extract(r"^(\d+),").cast(pl.Int64, strict=False).alias("tokens"),
    )  # fmt: skip
    first = rows["step"].min()
    whole = rows.with_row_index("at").with_columns((pl.col("at").max().over("step") < MOST_CALLS).alias("fits"))
    return (
        whole.filter(pl.col("fits") | (pl.col("step") == first))
        .head(MOST_CALLS)
        .drop("at", "fits")
        .drop_nulls("tokens")
    )


def expert_operators(
    calls: Mapping[int, pl.DataFrame], groups: Mapping[str, tuple[int, ...]]
) -> tuple[ExpertOperator, ...]:
    """The most uneven operators of all groups; steps in which ranks of a group ran different numbers are left out."""
    named = {label: own for label, own in groups.items() if sum(rank in calls for rank in own) >= _LEAST_RANKS}
    found = [
        row
        for label, members in (named or {"all ranks": tuple(calls)}).items()
        for row in _of_group(label, {rank: calls[rank] for rank in members if rank in calls})
    ]
    return tuple(sorted(found, key=lambda one: (-one.imbalance, one.group, one.place))[:MOST])


def _of_group(label: str, calls: Mapping[int, pl.DataFrame]) -> Iterator[ExpertOperator]:
    if len(calls) < _LEAST_RANKS:
        return
    rows = pl.concat([own.with_columns(pl.lit(rank, pl.Int64).alias("rank")) for rank, own in calls.items()])
    counted = rows.group_by("step", "rank").len().group_by("step").agg(pl.col("len").n_unique(), pl.len().alias("n"))
    alike = counted.filter((pl.col("len") == 1) & (pl.col("n") == len(calls)))["step"]
    rows = rows.filter(pl.col("step").is_in(alike.implode()))
    over = rows.group_by("step", "place").agg((pl.col("tokens").max() / pl.col("tokens").mean() - 1).alias("over"))
    middle = over.filter(pl.col("over").is_finite()).group_by("place").agg(
        pl.col("over").median(), pl.len().alias("steps")
    )  # fmt: skip
    means = rows.group_by("place", "rank").agg(pl.col("tokens").mean(), pl.col("name").first()).sort("tokens", "rank")
    ends = means.group_by("place").agg(
        pl.col("name").sort_by("rank").first(), pl.col("tokens").mean().alias("mean"),
        pl.col("tokens").first().alias("least"), pl.col("rank").first().alias("least_rank"),
        pl.col("tokens").last().alias("most"), pl.col("rank").last().alias("most_rank"),
    )  # fmt: skip
    for row in middle.join(ends, on="place").sort("over", "place", descending=[True, False]).head(MOST).to_dicts():
        yield ExpertOperator(
            group=label, ranks=tuple(sorted(calls)), place=row["place"], name=row["name"], steps=row["steps"],
            mean=row["mean"], least=row["least"], least_rank=row["least_rank"], most=row["most"],
            most_rank=row["most_rank"], imbalance=row["over"],
        )  # fmt: skip
