"""Measures how long a rank fills memory that was just allocated, as PyTorch's deterministic mode does.

With `torch.use_deterministic_algorithms(True)`, PyTorch fills each new tensor before an operator writes to the tensor
(`torch/utils/deterministic.py`, `fill_uninitialized_memory`). A capture shows the fill directly inside the allocating
operator, such as `aten::empty`. `torch.full` and `torch.zeros` fill a tensor beside the allocation, not inside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.model.declare import field, measure
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.memory.memory_peaks import device_time_of_launches, intervals_by_thread
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import typical_of
from hermes.profiles.measure.steps.device_of_step import step_arrows, step_calls, step_kernels

_ALLOCATES = r"^aten::(new_)?empty|^aten::resize_"
_FILLS = "aten::fill_"


@measure("memory.fills", title="Fills of new memory", zh="对新内存的填充")
@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemoryFills:
    """Fills of new tensors in the rank's step of median window."""

    rank: int = field("global rank", "Rank", "卡")
    step: int | None = field("its step of median window", "Step", "步")
    fills: int = field("tensors that were filled when they were allocated", "Fills", "填充次数")
    host_ns: int = field("time of the host in these fills", "Host", "主机")
    device_ns: int | None = field("time of the kernels that these fills launched", "Device", "设备")


@per_rank(NewMemoryFills, needs={"kernel": ("correlation",)})
def new_memory_fills_of(rank: RankTables) -> Iterator[NewMemoryFills]:
    """At most one row; none where no new memory is filled."""
    split, calls = rank.once(typical_of), rank.once(step_calls)
    if split is not None:
        yield from new_memory_fills(split, calls, rank.once(step_kernels), rank.once(step_arrows))


def new_memory_fills(
    split: StepSplit, calls: pl.DataFrame, kernel: pl.DataFrame, flow: pl.DataFrame
) -> Iterator[NewMemoryFills]:
    """The fills among `calls` of a step, with the kernels among `kernel` that they launched; none without a fill."""
    operators = calls.filter(pl.col("kind") == "op")
    fills = operators.filter(pl.col("name") == _FILLS)
    if not fills.height:
        return
    allocating = operators.filter(pl.col("name").str.contains(_ALLOCATES))
    inside = fills.filter(enclosing(allocating, fills).is_not_null())
    if not inside.height:
        return
    when = intervals_by_thread(inside)
    device, known = device_time_of_launches(when, calls, kernel, flow)
    yield NewMemoryFills(
        rank=split.rank, step=split.step, fills=inside.height, host_ns=sum(own.total for own in when.values()),
        device_ns=device.total if known else None,
    )  # fmt: skip
