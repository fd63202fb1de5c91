"""Which ranks meet in which call of a fused kernel: one that computes and communicates is a collective, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from hermes.knowledge.fused import fused_kind
from hermes.profiles.measure.path.event_builder import APART_NS

Members = Mapping[str, Mapping[int, tuple[int, ...]]]
"""By dimension (`tp`, `ep`) the members of the group of each rank."""


def fused_meetings(
    kernels: Mapping[int, pl.DataFrame], groups: Members, offsets: Mapping[int, int]
) -> list[dict[int, int]]:
    """The calls that several ranks share, by rank the `kernel_id`: the same of a step, in order.

    Members are as recorded, else all ranks that call it as often. Nobody leaves such a kernel before the last has come:
    calls that lie otherwise, on the common clock that `offsets` lead to, are none of one meeting.
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
    """By operator and step the calls in order: `kernel_id`, start and end on the common clock."""
    names = [name for name in kernel["type"].drop_nulls().unique().to_list() if fused_kind(name) is not None]
    start = pl.col("start_ns") + offset_ns
    rows = kernel.filter(pl.col("type").is_in(names) & (pl.col("component") == "compute")).sort("start_ns")
    rows = rows.select("type", "step", "kernel_id", start.alias("start"), (start + pl.col("dur_ns")).alias("end"))
    for (operator, step), own in rows.group_by("type", "step", maintain_order=True):
        yield str(operator), step, list(own.select("kernel_id", "start", "end").iter_rows())


def _one(calls: Sequence[tuple[int, int, int]]) -> bool:
    return max(start for _, start, _ in calls) <= min(end for _, _, end in calls) + APART_NS
