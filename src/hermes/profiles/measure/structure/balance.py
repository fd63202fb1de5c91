"""Measures the balance of ranks: tokens of their batches, and tokens routed to their experts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.knowledge.cost.tensors import BETWEEN_TENSORS
from hermes.model.compute_measures import StepCompute
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import Balance
from hermes.profiles.measure.stack_rank_tables import stacked

EMBEDDINGS = ("aten::embedding", "GatherV2", "EmbeddingV2", "Embedding", "Gather")
"""Framework operators and Ascend kernel types that look up tokens: their second input has one index per token."""
EXPERT_KERNELS = "GroupedMatmul"
"""The prefix of Ascend's kernel types for grouped products of experts."""
_LEAST_ROWS = 1_000
"""Tables with fewer rows are no vocabulary, but positions or token types."""
_MOST_GROUPS = 64
_OVER = (pl.col("tokens").max() / pl.col("tokens").mean() - 1).alias("over")
"""By how much the largest load of a step exceeds the mean, as a share of the mean."""
_SAMPLES = 4
_KNOWN = 0.9
"""The least share of the time of products, convolutions and attention whose operations must be known."""


def tokens_of(calls: pl.DataFrame) -> pl.DataFrame:
    """Tokens by step of one rank (`step`, `tokens`), from the shapes of its lookups (`step, shapes` of `EMBEDDINGS`).

    A model looks its tokens up once per micro-batch; if several lookups share a step, the lookups of the largest table
    count.
    """
    parts = pl.col("shapes").str.split(BETWEEN_TENSORS)
    table = parts.list.get(0, null_on_oob=True).str.split(",")
    indices = parts.list.get(1, null_on_oob=True).str.split(",")
    count = indices.list.eval(pl.element().cast(pl.Int64, strict=False).product()).list.first()
    rows = calls.filter(pl.col("step").is_not_null() & pl.col("shapes").is_not_null()).select(
        "step",
        table.list.len().alias("depth"),
        table.list.get(0, null_on_oob=True).cast(pl.Int64, strict=False).alias("rows"),
        count.alias("tokens"),
    )
    rows = rows.filter((pl.col("depth") == 2) & (pl.col("rows") >= _LEAST_ROWS) & (pl.col("tokens") > 0))
    return rows.filter(pl.col("rows") == pl.col("rows").max()).group_by("step").agg(pl.col("tokens").sum()).sort("step")


def expert_tokens_of(calls: pl.DataFrame) -> pl.DataFrame:
    """Expert tokens by step of one rank (`step`, `tokens`): mean rows of the first input of its grouped products."""
    rows = calls.filter(pl.col("step").is_not_null()).select(
        "step",
        pl.col("shapes").str.extract(r"^(\d+),").cast(pl.Int64, strict=False).alias("tokens"),
    )
    return rows.drop_nulls().group_by("step").agg(pl.col("tokens").mean()).sort("step")


def operations_of(steps: Iterable[StepCompute]) -> tuple[Mapping[int, pl.DataFrame], pl.DataFrame]:
    """Operations by step of each rank (`step`, `tokens`), if hardly any is unknown; and the compute time.

    The time is `rank, step, compute_ns`: the sum of what a step's operators took, used if no device tells.
    """
    known = [row for row in steps if row.step is not None and row.flops and (row.known_share or 0) >= _KNOWN]
    every = pl.DataFrame(
        [(row.rank, row.step, row.flops, row.kernel_ns) for row in known],
        schema={"rank": pl.Int64, "step": pl.Int64, "tokens": pl.Int64, "compute_ns": pl.Int64},
        orient="row",
    )
    parts = every.select("rank", "step", "tokens").partition_by("rank", as_dict=True, include_key=False)
    return {int(rank): rows for (rank,), rows in parts.items()}, every.select("rank", "step", "compute_ns")


def balances(
    what: Literal["tokens", "operations", "expert tokens"],
    source: str,
    loads: Mapping[int, pl.DataFrame],
    groups: Mapping[str, tuple[int, ...]],
    splits: Iterable[StepSplit],
    work: pl.DataFrame | None = None,
) -> tuple[Balance, ...]:
    """One row for each group with a load on two ranks or more, the most uneven first; else one row of all ranks.

    `work` is `rank, step, compute_ns` for ranks without recorded device tasks.
    """
    known = [(rank, own) for rank, own in loads.items() if own.height]
    if len(known) < 2:
        return ()
    every = stacked(known).select("rank", "step", pl.col("tokens").cast(pl.Float64))
    compute = pl.DataFrame(
        [(split.rank, split.step, split.compute_ns) for split in splits if split.step is not None],
        schema={"rank": pl.Int64, "step": pl.Int64, "compute_ns": pl.Int64},
        orient="row",
    )
    every = every.join(compute, on=["rank", "step"], how="left")
    if work is not None:
        every = every.join(work, on=["rank", "step"], how="left", suffix="_added").with_columns(
            pl.coalesce("compute_ns", "compute_ns_added").alias("compute_ns")
        )
    named = {label: members for label, members in groups.items() if sum(rank in loads for rank in members) > 1}
    members = pl.DataFrame(
        [(label, rank) for label, own in (named or {"all ranks": tuple(loads)}).items() for rank in own],
        schema={"label": pl.String, "rank": pl.Int64},
        orient="row",
    )
    every = every.join(members, on="rank", how="inner", maintain_order="left")
    parts = every.filter(pl.col("label").is_in(_most_uneven(every))).partition_by("label", as_dict=True)
    found = [_balance(what, str(label), source, own) for (label,), own in parts.items()]
    return tuple(sorted(found, key=lambda one: (-one.imbalance, one.ranks)))


def _most_uneven(rows: pl.DataFrame) -> list[str]:
    """The labels of the most uneven groups, chosen at once: a job has thousands of groups."""
    by_step = rows.group_by("label", "step").agg(_OVER)
    over = dict(by_step.group_by("label").agg(pl.col("over").median()).iter_rows())
    ranks = dict(rows.group_by("label").agg(pl.col("rank").unique().sort()).iter_rows())
    return sorted(over, key=lambda label: (-(over[label] or 0.0), ranks[label], label))[:_MOST_GROUPS]


def _balance(
    what: Literal["tokens", "operations", "expert tokens"], label: str, source: str, rows: pl.DataFrame
) -> Balance:
    by_rank = rows.group_by("rank").agg(pl.col("tokens").mean()).sort("tokens", "rank")
    by_step = rows.group_by("step").agg(_OVER)
    pairs = rows.drop_nulls("compute_ns")
    middle = by_step["over"].median()
    # Only steps in which all ranks are known.
    late = (
        pairs.group_by("step")
        .agg(pl.len().alias("ranks"), (pl.col("compute_ns").max() - pl.col("compute_ns").mean()).alias("late_ns"))
        .filter(pl.col("ranks") == by_rank.height)["late_ns"]
        .mean()
    )
    return Balance(
        what=what,
        group=label,
        ranks=tuple(sorted(by_rank["rank"])),
        source=source,
        steps=by_step.height,
        mean=float(np.mean(by_rank["tokens"].to_numpy())),
        least=by_rank["tokens"][0],
        least_rank=by_rank["rank"][0],
        most=by_rank["tokens"][-1],
        most_rank=by_rank["rank"][-1],
        imbalance=float(middle) if isinstance(middle, float) else 0.0,
        correlation=_correlation(pairs["tokens"].to_numpy(), pairs["compute_ns"].to_numpy()),
        samples=pairs.height,
        late_ns=round(late) if isinstance(late, float) else None,
    )


def _correlation(one: NDArray[np.float64], other: NDArray[np.int64]) -> float | None:
    if len(one) < _SAMPLES or not one.std() or not other.std():
        return None
    return float(np.corrcoef(one, other)[0, 1])
