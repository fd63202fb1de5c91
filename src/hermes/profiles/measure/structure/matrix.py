"""Builds the rank matrix: any metric of all ranks in one table, with many ranks in blocks with their extremes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import polars as pl

from hermes.model.comm_measures import SlowRank
from hermes.model.structure_measures import MatrixRow, Metric, RankMatrix, Spread
from hermes.model.typical_step import JobSteps

ROWS = 128
"""The most rows of the matrix: with more ranks, consecutive ranks share a row."""

Values = Mapping[int, float]


def rank_matrix(
    ranks: Sequence[int], metrics: Sequence[tuple[str, str, Values]], *, most: int = ROWS
) -> RankMatrix | None:
    """The matrix of each metric's name, unit and values by rank; metrics that no rank has are left out.

    With more than `most` ranks, a row holds a power of two of consecutive ranks, so that `most` rows suffice.
    """
    known = [(name, unit, values) for name, unit, values in metrics if values]
    ordered = sorted(set(ranks))
    if not known or not ordered:
        return None
    per_row = 1
    while -(-len(ordered) // per_row) > most:
        per_row *= 2
    blocks = [ordered[at : at + per_row] for at in range(0, len(ordered), per_row)]
    return RankMatrix(
        ranks_per_row=per_row,
        metrics=tuple(
            Metric(name=name, unit=unit, spread=_known(list(values), values)) for name, unit, values in known
        ),
        rows=tuple(
            MatrixRow(
                first_rank=block[0],
                last_rank=block[-1],
                ranks=len(block),
                cells=tuple(_spread(block, values) for _, _, values in known),
            )
            for block in blocks
        ),
    )


def _spread(ranks: Sequence[int], values: Values) -> Spread | None:
    own = [rank for rank in ranks if rank in values]
    return _known(own, values) if own else None


def _known(ranks: Sequence[int], values: Values) -> Spread:
    ordered = sorted(ranks, key=lambda rank: (values[rank], rank))
    numbers = [values[rank] for rank in ordered]
    return Spread(
        ranks=len(ordered),
        least=numbers[0],
        median=float(np.median(numbers)),
        most=numbers[-1],
        least_rank=ordered[0],
        most_rank=ordered[-1],
    )


OF_STEPS: tuple[tuple[str, str], ...] = (
    ("window", "window_ns"),
    ("compute", "compute_ns"),
    ("exposed communication", "exposed_comm_ns"),
    ("exposed copy", "copy_exposed_ns"),
    ("free", "free_ns"),
)
"""Metrics of the step's split: the median over a rank's steps."""
OF_OPERATIONS: tuple[tuple[str, str], ...] = (
    ("wait in communication", "wait_ns"),
    ("transfer", "transfer_ns"),
    ("idle in communication", "idle_ns"),
    ("transfer beside compute", "hidden_ns"),
)
"""Metrics of operations with a known last arrival: their sum per step."""


def medians(steps: JobSteps, field: str) -> dict[int, float]:
    """The median of a field of the splits, for each rank that has the field."""
    known = {
        rank: [ns for split in steps.of(rank) if (ns := getattr(split, field)) is not None] for rank in steps.ranks
    }
    return {rank: float(median(values)) for rank, values in known.items() if values}


def per_step(rows: pl.DataFrame | None, column: str, steps: Mapping[int, int]) -> dict[int, float]:
    """For each rank, the sum of a column of its split operations per step; operations outside steps are left out."""
    if rows is None:
        return {}
    own = rows.filter(pl.col("split"))
    if own["step"].null_count() < own.height:
        own = own.filter(pl.col("step").is_not_null())
    transfer = pl.col("dur_ns") - pl.col("wait_ns") - pl.col("idle_ns").fill_null(0)
    value = transfer if column == "transfer_ns" else pl.col(column)
    summed = own.group_by("rank").agg(value.sum().alias("ns"), value.count().alias("n")).filter(pl.col("n") > 0)
    return {rank: ns / steps.get(rank, 1) for rank, ns in summed.select("rank", "ns").iter_rows()}


def delays_of_ranks(slow: Sequence[SlowRank], steps: Mapping[int, int]) -> dict[int, float]:
    """How many ns per step each rank delayed the others: 0 for ranks that never did, if any did."""
    if not slow:
        return {}
    return dict.fromkeys(steps, 0.0) | {one.rank: one.held_ns / steps.get(one.rank, 1) for one in slow if one.collected}


def speeds(sums: Sequence[pl.DataFrame]) -> dict[int, float]:
    """The link speed of each rank in 10^9 bytes a second: bytes over time of all its transfers."""
    if not sums:
        return {}
    total = (
        pl.concat(sums)
        .group_by("rank")
        .agg((pl.col("n") * pl.col("bytes")).sum().alias("size"), pl.col("time_ns").sum())
    )
    return {rank: size / time for rank, size, time in total.iter_rows() if time}


def means(loads: Mapping[int, pl.DataFrame]) -> dict[int, float]:
    """The mean load of each rank's steps."""
    return {rank: float(np.mean(own["tokens"].to_numpy())) for rank, own in loads.items() if own.height}
