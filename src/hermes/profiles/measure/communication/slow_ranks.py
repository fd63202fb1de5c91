"""Finds stragglers: ranks that arrive last again and again, how long others wait for them, and how likely that is."""

from __future__ import annotations

from collections.abc import Collection
from math import pi

import numpy as np
import polars as pl

from hermes.base.intervals import union_of_intervals
from hermes.base.significance import among, binomial_tail, student_tail
from hermes.model.comm_measures import SlowRank
from hermes.profiles.measure.communication.wait_and_transfer import Operations

_OF_MEDIAN = (pi / 2) ** 0.5
"""The ratio of a median's error to a mean's error, for many draws of a normal distribution."""


def slow_ranks(made: Operations, collected: Collection[int]) -> tuple[SlowRank, ...]:
    """Ranks that arrived last beyond the errors of the clocks, longest delay of the others first.

    Only operations with a known last arrival count. In each step, or each collective without a step, the rank that
    delayed the others longest counts once. One delay affects all collectives of its step, and is one event.
    """
    judged = made.instances.filter(
        pl.col("complete") & pl.col("matched") & (pl.col("manner") != "rooted") & pl.col("second_ns").is_not_null()
    )
    if not judged.height:
        return ()
    errors = pl.col("error_ns") + pl.col("last_error_ns")
    judged = judged.with_columns(
        (pl.col("last_ns") - pl.col("second_ns")).alias("lead_ns"),
        pl.when(pl.col("step").is_null())
        .then(pl.format("{}/{}", "group", "key"))
        .otherwise(pl.format("step {}", "step"))
        .alias("block"),
    )
    late = judged.filter(pl.col("lead_ns") > errors)
    winners = (
        late.group_by("block", "last")
        .agg(pl.col("lead_ns").sum())
        .sort("lead_ns", "last", descending=[True, False])
        .group_by("block", maintain_order=True)
        .first()
    )
    won = dict(winners.group_by("last").len().iter_rows())
    blocks = judged["block"].n_unique()
    members = max(len(collected), judged["last"].n_unique(), 2)
    waited = dict(made.rows.group_by("rank").agg(pl.col("wait_ns").sum()).iter_rows())
    taken = dict(made.rows.filter(pl.col("split")).group_by("rank").len().iter_rows())
    worst = int(judged.select(errors.max()).item() or 0)
    lateness = _lateness(made.rows)
    found = []
    for (rank,), own in late.partition_by("last", as_dict=True).items():
        leads = own["lead_ns"].to_numpy()
        chance = binomial_tail(won.get(rank, 0), blocks, 1 / members)
        found.append(
            SlowRank(
                rank=rank,
                collected=rank in collected,
                operations=taken.get(rank, judged.height),
                last=own.height,
                blocks=blocks,
                blocks_last=won.get(rank, 0),
                held_ns=union_of_intervals(own["second_ns"].to_numpy(), own["last_ns"].to_numpy()).total,
                median_lead_ns=int(np.median(leads)),
                own_wait_ns=int(waited.get(rank) or 0),
                error_ns=worst,
                p_value=among(chance, members),
                noise_p_value=lateness.get(rank),
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.held_ns, one.rank)))


def _lateness(rows: pl.DataFrame) -> dict[int, float]:
    """For each rank, the probability of its lateness by the noise of the steps alone, times the number of ranks.

    A rank's lateness is its arrival after the median member, as the mean over the collectives of a step. The rank must
    be late in more than half of the steps. The noise is the standard deviation of a rank from step to step, over all
    ranks together: it includes kernels that take far too long once in a while. Empty if fewer than two steps are known.
    """
    judged = rows.filter(pl.col("split") & (pl.col("manner") != "rooted") & pl.col("step").is_not_null())
    late = (pl.col("wait_ns").median() - pl.col("wait_ns")).over("group", "key")
    steps = (
        judged.with_columns(late.alias("late_ns")).group_by("rank", "step").agg(pl.col("late_ns").mean()).sort("rank")
    )
    by_rank = {
        int(str(key[0])): np.sort(own["late_ns"].to_numpy())
        for key, own in steps.partition_by("rank", as_dict=True).items()
    }
    degrees = sum(len(own) - 1 for own in by_rank.values())
    if not degrees:
        return {}
    squares = sum(float(((own - own.mean()) ** 2).sum()) for own in by_rank.values())
    noise = max((squares / degrees) ** 0.5, 1.0) * _OF_MEDIAN
    # If one rank is late, the others are early by as much: the last rank's lateness is not independent.
    freedom = degrees * (len(by_rank) - 1) // len(by_rank)
    return {
        rank: among(student_tail(float(own[(len(own) - 1) // 2]) * len(own) ** 0.5 / noise, freedom), len(by_rank))
        for rank, own in by_rank.items()
    }
