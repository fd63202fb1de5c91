"""The second round for one rank, with data of other ranks: its collectives, split at their last arrival.

What other ranks did is given as columns of the rank's collectives; only the rank's own tables are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.base.intervals import EMPTY, Intervals, union_of_intervals
from hermes.knowledge.operators import EXPERTS
from hermes.model.comm_measures import Contention
from hermes.model.leaf_time import IdleStretch, LeafTime
from hermes.profiles.measure.communication import contention, group_ops, transfers
from hermes.profiles.measure.communication.wait_and_transfer import with_compute, with_tasks
from hermes.profiles.measure.leaves.leaves_of_rank import leaves
from hermes.profiles.measure.leaves.spells import RankSpells
from hermes.profiles.measure.registry import RankTables
from hermes.profiles.measure.structure import balance, pipeline
from hermes.profiles.measure.structure.expert_operators import expert_calls_of

GIVEN = (
    "comm_id", "op", "group", "step", "bytes", "start_ns", "dur_ns", "split", "wait_ns", "arrival_ns", "elsewhere",
    "last",
)  # fmt: skip
"""The columns given of each collective:

`collectives.operations`, whether the last rank to arrive is in another stage, and that rank.
"""
MOST_SUMS = 4_096
"""The most rows of transfers by link, size and step that a rank may send; with more, its steps are summed."""
_MOST_CONTRASTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExchange:
    """What one rank tells about its collectives: `hidden` by `comm_id`, sums of transfers, contention, stage waits.

    `leaves` and `spells` are part of the exchange, since the leaves name the ranks for which the rank waited.
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
    idle: tuple[IdleStretch, ...] = ()
    spells: RankSpells | None = None


def exchange(rank: RankTables, given: pl.DataFrame, steps: int, *, alone: bool) -> RankExchange:
    """The exchange of a rank from its own tables; `given` has the columns `GIVEN`; `steps` counts its marked steps."""
    task = rank.table("comm_task")
    tokens, experts, calls = (None, None, None) if alone else _load_of(rank)
    moves = transfers.moves_of(task)
    reported = None if moves.height else transfers.reported_links(rank.table("comm_link"), rank.table("group"))
    times = leaves(rank, given.select("comm_id", "split", "wait_ns", "last"))
    if not given.height:
        return RankExchange(
            rank=rank.rank, reported=reported, tokens=tokens, experts=experts, expert_calls=calls, leaves=times.rows,
            idle=times.idle, spells=times.spells,
        )  # fmt: skip
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
        leaves=times.rows,
        idle=times.idle,
        spells=times.spells,
    )


def _compute(rank: RankTables) -> Intervals:
    rows = rank.table("kernel").filter(pl.col("component") == "compute")
    starts = rows["start_ns"].to_numpy()
    return union_of_intervals(starts, starts + rows["dur_ns"].to_numpy()) if rows.height else EMPTY


def _bounded(sums: pl.DataFrame) -> pl.DataFrame:
    """The sums over all steps if a rank has too many rows by step: their median is the median of the steps' medians."""
    if sums.height <= MOST_SUMS:
        return sums
    link = ["rank", "peer_rank", "transport", "task", "bytes"]
    whole = sums.group_by(link).agg(
        pl.lit(None, dtype=pl.Int64).alias("step"),
        pl.col("n", "time_ns").sum(),
        pl.col("median_ns").median(),
        pl.col("stalled", "stalled_ns").sum(),
        pl.col("longest_ns").max(),
        transfers.first_of_longest(pl.col("at_ns"), pl.col("longest_ns")),
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
    """Tokens by the shapes of embedding lookups, tokens of the experts' products, and calls of expert operators."""
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
