"""Measures synchronised batch norm: its layers in a step, and the time of their collectives.

PyTorch's SyncBatchNorm has two autograd functions, on Ascend as on GPUs: `SyncBatchNorm` gathers mean and variance of
one layer, `SyncBatchNormBackward` sums their gradients. The layer needs the result to continue, and nothing runs beside
such a collective, however small it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals
from hermes.model.declare import field, measure
from hermes.profiles.measure.host.select_host_calls import outermost, spans
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import typical_of
from hermes.profiles.measure.steps.device_of_step import parts_of, step_calls

_FORWARD, _BACKWARD = "SyncBatchNorm", "SyncBatchNormBackward"


@measure(
    "communication.norms",
    title="Batch norm over ranks",
    zh="跨卡批归一化",
    about="Layers of SyncBatchNorm in the typical step of each rank, and the collectives that they launch.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class NormSync:
    """The synchronised batch norm of one rank in its typical step."""

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step; null where none is marked", "Step", "步")
    layers: int = field("calls of the forward function", "Layers", "层数")
    collectives: int = field("operations that they launch, forward and backward", "Collectives", "集合通信数")
    comm_ns: int = field("when at least one of these runs", "Communication", "通信")
    exposed_ns: int = field("of it, with nothing computed", "Exposed", "未掩盖", of="comm_ns")


@per_rank(NormSync, needs={"comm_op": ("step", "start_ns", "dur_ns", "launch_ns")})
def norms_of(rank: RankTables) -> NormSync | None:
    """The synchronised batch norm of a rank; None if its typical step has no such layer."""
    split = rank.once(typical_of)
    if split is None:
        return None
    comm_op = rank.table("comm_op")
    own = comm_op.filter(pl.col("step") == split.step) if split.step is not None else comm_op
    return norm_sync(rank.rank, split.step, rank.once(step_calls), own, rank.once(parts_of)["compute"])


def norm_sync(
    rank: int, step: int | None, calls: pl.DataFrame, comm_op: pl.DataFrame, compute: Intervals
) -> NormSync | None:
    """The collectives of a step that batch-norm layers among its calls launch; None without such a layer."""
    forward = outermost(calls.filter(pl.col("name") == _FORWARD))
    if not forward.height:
        return None
    backward = outermost(calls.filter(pl.col("name") == _BACKWARD))
    launched = comm_op.filter(_inside(comm_op["launch_ns"], (forward, backward)))
    when = spans(launched)
    return NormSync(
        rank=rank,
        step=step,
        layers=forward.height,
        collectives=launched.height,
        comm_ns=when.total,
        exposed_ns=(when - compute).total,
    )


def _inside(moments: pl.Series, calls: Iterable[pl.DataFrame]) -> pl.Series:
    """For each moment, whether it lies in one of the calls; an unrecorded moment lies in none."""
    every = spans(pl.concat(own.select("start_ns", "dur_ns") for own in calls))
    at = moments.fill_null(np.iinfo(np.int64).min).to_numpy()
    place = np.searchsorted(every.starts, at, side="right") - 1
    return pl.Series((place >= 0) & (at < every.ends[np.maximum(place, 0)]))
