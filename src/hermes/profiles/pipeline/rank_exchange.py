"""The part of the second round that needs other ranks: a rank's operations, once it is known when each could begin.

What others did is given with its operations, as columns; of tables only the rank's own are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, flat
from hermes.knowledge.operators import EXPERTS
from hermes.model.comm_measures import Contention
from hermes.model.leaf_time import LeafTime
from hermes.profiles.measure.communication import contention, group_ops, transfers
from hermes.profiles.measure.communication.collectives import with_compute, with_tasks
from hermes.profiles.measure.leaves.of_rank import leaves
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.structure import balance, pipeline
from hermes.profiles.measure.structure.expert_operators import expert_calls_of

GIVEN = (
    "comm_id", "op", "group", "step", "bytes", "start_ns", "dur_ns", "split", "wait_ns", "arrival_ns", "elsewhere",
    "last",
)  # fmt: skip
"""What is given of each operation: `collectives.operations`, and whether the last to arrive is in another stage,
and which rank it is."""
MOST_SUMS = 4_096
"""Rows of transfers by link, size and step that a rank may send; beyond, its steps are taken together."""
_MOST_CONTRASTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExchange:
    """What one rank tells of its operations: `hidden` by `comm_id`, sums of transfers, contention, waits for stages.

    And its leaves, since it is known by then for whom it waited.
    """

    rank: int
    hidden: pl.DataFrame | None = None
    traffic: pl.DataFrame | None = None
    sums: pl.DataFrame | None = None
    reported: pl.DataFrame | None = None
    contention: tuple[Contention, ...] = ()
    wait: pipeline.StageWait | None = None
    tokens: pl.DataFrame | None = None
    experts: pl.DataFrame | None = None
    expert_calls: pl.DataFrame | None = None
    leaves: tuple[LeafTime, ...] = ()


def exchange(rank: RankTables, given: pl.DataFrame, held: pl.DataFrame, steps: int, *, alone: bool) -> RankExchange:
    """What a rank's own tables tell of its operations; `given` holds the columns `GIVEN`, `steps` its marked steps.

    `held` tells when other ranks waited for this one, as `leaves.tree` wants it.
    """
    task = rank.table("comm_task")
    tokens, experts, calls = (None, None, None) if alone else _load_of(rank)
    moves = transfers.moves_of(task)
    reported = None if moves.height else transfers.reported_links(rank.table("comm_link"), rank.table("group"))
    times = leaves(rank, given.select("comm_id", "split", "wait_ns", "last"), held)
    if not given.height:
        return RankExchange(
            rank=rank.rank, reported=reported, tokens=tokens, experts=experts, expert_calls=calls, leaves=times
        )
    compute = rank.once(_compute)
    own = with_compute(with_tasks(given, task), compute)
    return RankExchange(
        rank=rank.rank,
        hidden=own.select("comm_id", "idle_ns", "hidden_ns"),
        traffic=group_ops.traffic_by_group(own, moves) if moves.height else None,
        sums=_bounded(transfers.transfer_sums(own, moves)) if moves.height else None,
        reported=reported,
        contention=_beside(rank, own, compute),
        wait=pipeline.stage_wait(rank.rank, own, compute, steps or 1),
        tokens=tokens,
        experts=experts,
        expert_calls=calls,
        leaves=times,
    )


def _compute(rank: RankTables) -> Intervals:
    rows = rank.table("kernel").filter(pl.col("component") == "compute")
    starts = rows["start_ns"].to_numpy()
    return flat(starts, starts + rows["dur_ns"].to_numpy()) if rows.height else EMPTY


def _bounded(sums: pl.DataFrame) -> pl.DataFrame:
    """The sums without their steps, where a rank has too many of them: the median is that of the steps' medians."""
    if sums.height <= MOST_SUMS:
        return sums
    link = ["rank", "peer_rank", "transport", "task", "bytes"]
    whole = sums.group_by(link).agg(
        pl.lit(None, dtype=pl.Int64).alias("step"),
        pl.col("n", "time_ns").sum(),
        pl.col("median_ns").median(),
        pl.col("stalled", "stalled_ns").sum(),
        pl.col("longest_ns").max(),
        pl.col("at_ns").sort_by("longest_ns", nulls_last=False).last(),
    )
    return whole.sort("time_ns", *link, descending=[True] + [False] * len(link)).head(MOST_SUMS).select(sums.columns)


def _beside(rank: RankTables, own: pl.DataFrame, compute: Intervals) -> tuple[Contention, ...]:
    if not own["hidden_ns"].sum() or not len(compute):
        return ()
    rows = rank.table("kernel").filter(pl.col("component") == "compute").with_columns(
        pl.coalesce("input_shapes", pl.format("{} blocks", "blocks")).alias("input_shapes")
    )  # fmt: skip
    found = contention.compute_contention(own, rows)
    return tuple(sorted(found, key=lambda one: (-abs(one.loss_ns), one.name, one.detail))[:_MOST_CONTRASTS])


def _load_of(rank: RankTables) -> tuple[pl.DataFrame | None, pl.DataFrame | None, pl.DataFrame | None]:
    """Tokens by the shapes of what looked them up, of what the experts multiplied, and of each such operator."""
    data, kernel = rank.data, rank.table("kernel")
    names = (*balance.EMBEDDINGS, *EXPERTS)
    called = data.where("host_op", ("name", "step", "shapes", "start_ns"), pl.col("name").is_in(names))
    tokens = balance.tokens_of(called.filter(pl.col("name").is_in(balance.EMBEDDINGS)))
    grouped = called.filter(pl.col("name").is_in(EXPERTS))
    if not tokens.height and kernel["type"].is_in(balance.EMBEDDINGS).any():
        looked = data.where("kernel", ("step", "input_shapes"), pl.col("type").is_in(balance.EMBEDDINGS))
        tokens = balance.tokens_of(looked.rename({"input_shapes": "shapes"}))
    kinds = kernel["type"].drop_nulls().unique()
    ran = kinds.filter(kinds.str.starts_with(balance.EXPERT_KERNELS)).to_list()
    if not balance.expert_tokens_of(grouped).height and ran:
        grouped = data.where("kernel", ("step", "name", "start_ns", "input_shapes"), pl.col("type").is_in(ran))
        grouped = grouped.rename({"input_shapes": "shapes"})
    experts = balance.expert_tokens_of(grouped)
    if not experts.height:
        return tokens if tokens.height else None, None, None
    return tokens if tokens.height else None, experts, expert_calls_of(grouped)
