"""Finds nodes of the autograd graph that run backward more than once."""

from __future__ import annotations

import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.model.code_measures import BackwardAgain
from hermes.profiles.measure.code.repeated_calls import started_in
from hermes.profiles.measure.code.time_attribution import Attribution, attribution_of
from hermes.profiles.measure.memory.memory_peaks import BACKWARD
from hermes.profiles.measure.registry import RankTables, per_rank

_HOST_OP = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "sequence", "forward_tid")
_NODE = ("pid", "sequence", "forward_tid")


@per_rank(BackwardAgain, needs={"host_op": _HOST_OP})
def backward_again_of(rank: RankTables) -> BackwardAgain | None:
    """The autograd nodes of a rank that run backward again; None if every node runs once.

    Each node has a number of its own on the thread of its forward operator.
    """
    host_op = rank.table("host_op")
    nodes = host_op.filter(
        (pl.col("kind") == "op") & pl.col("name").str.starts_with(BACKWARD)
        & (pl.col("sequence") >= 0) & pl.col("forward_tid").is_not_null()
    )  # fmt: skip
    runs = nodes.with_columns(pl.len().over(_NODE).alias("runs")).filter(pl.col("runs") > 1)
    if not runs.height:
        return None
    found = rank.once(attribution_of)
    steps = max(1, len(found.bounds)) if found else max(1, rank.table("step").height)
    taken, times = runs["dur_ns"].to_numpy(), runs["runs"].to_numpy()
    extra, weight = float((taken * (times - 1) / times).sum()), float((taken * times).sum() / max(1, taken.sum()))
    return BackwardAgain(
        rank=rank.rank, times=weight, ns=round(extra) // steps,
        line=_line(rank, found, host_op, runs) if found else "",
    )  # fmt: skip


def _line(rank: RankTables, found: Attribution, host_op: pl.DataFrame, runs: pl.DataFrame) -> str:
    """The function of the user's code that starts most of these backward passes."""
    passes = host_op.filter(pl.col("name").str.contains("run_backward"))
    around = enclosing(passes, runs).drop_nulls()
    return started_in(rank, found, passes[around.to_list()]) if len(around) else ""
