"""Matches calls of fused kernels between ranks: such a kernel also communicates, and is a collective."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from hermes.knowledge.fused_kernels import fused_kind
from hermes.profiles.measure.path.event_builder import APART_NS

Members = Mapping[str, Mapping[int, tuple[int, ...]]]
"""The members of each rank's group, by dimension (`tp`, `ep`)."""


def fused_meetings(
    kernels: Mapping[int, pl.DataFrame], groups: Members, offsets: Mapping[int, int]
) -> list[dict[int, int]]:
    """The calls of fused kernels that several ranks share, as `kernel_id` by rank: the same call of a step, in order.

    Members are as recorded, else all ranks with equally many calls. No rank leaves such a kernel before the last rank
    has come: calls that contradict this, on the common clock given by `offsets`, are no meeting.
    """
    calls: dict[tuple[object, ...], dict[int, list[tuple[int, int, int]]]] = {}
    for rank, kernel in kernels.items():
        for operator, step, found in _calls(kernel, offsets.get(rank, 0)):
            kind = fused_kind(operator)
            members = groups.get(kind.group if kind else "", {}).get(rank)
            calls.setdefault((operator, step, members, len(found)), {})[rank] = found
    return [
        {rank: call[0] for rank, call in zip(of_rank, together, strict=True)}
        for of_rank in calls.values()
        for together in zip(*of_rank.values(), strict=True)
        if len(together) > 1 and _one(together)
    ]


def _calls(kernel: pl.DataFrame, offset_ns: int) -> Iterator[tuple[str, int | None, list[tuple[int, int, int]]]]:
    """The calls in order, by operator and step: `kernel_id`, start and end on the common clock."""
    names = [name for name in kernel["type"].drop_nulls().unique().to_list() if fused_kind(name) is not None]
    start = pl.col("start_ns") + offset_ns
    rows = kernel.filter(pl.col("type").is_in(names) & (pl.col("component") == "compute")).sort("start_ns")
    rows = rows.select("type", "step", "kernel_id", start.alias("start"), (start + pl.col("dur_ns")).alias("end"))
    for (operator, step), own in rows.group_by("type", "step", maintain_order=True):
        yield str(operator), step, list(own.select("kernel_id", "start", "end").iter_rows())


def _one(calls: Sequence[tuple[int, int, int]]) -> bool:
    return max(start for _, start, _ in calls) <= min(end for _, _, end in calls) + APART_NS
