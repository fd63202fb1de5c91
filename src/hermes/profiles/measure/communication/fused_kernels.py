"""Measures fused kernels, which compute and communicate at once: their own work, and their wait for other ranks.

With one rank only a range of the wait is known: from nothing to what remains after the least time of chip and links.
With several ranks the shortest of equal calls tells: all ranks leave together, and the rank that came last did not
wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.knowledge.cost.tensors import tensors
from hermes.knowledge.fused_kernels import fused_flops, fused_kind, moved_bytes
from hermes.knowledge.identify_chip import chip_of
from hermes.knowledge.links import link_spec
from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank

_COLUMNS = (
    "component", "type", "start_ns", "dur_ns", "step", "input_shapes", "input_dtypes", "output_shapes", "output_dtypes",
)  # fmt: skip
_MOST = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedCalls:
    """The calls of one fused operator on one rank, in order, with the signature that takes most of the time.

    `rates` are the chip's peak in FLOP/s and the links' speed in bytes/s; None if unknown.
    """

    rank: int
    operator: str
    lengths: tuple[int, ...]
    flops: int | None
    rates: tuple[float | None, float | None]
    inputs: str | None
    dtypes: str | None
    outputs: str | None
    output_dtypes: str | None


@measure(
    "communication.fused",
    title="Kernels that compute and communicate",
    zh="通算融合算子",
    about=(
        "They count as compute. Waiting is told by the same calls of other ranks where those were collected; else it "
        "is a range, up to what the least time of chip and links leaves."
    ),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class FusedOperator:
    """All calls of one fused operator on one rank."""

    rank: int = field("global rank", "Rank", "卡")
    operator: str = field("type of the kernel", "Kernel", "算子")
    collective: str = field("what it does besides computing", "Collective", "集合通信")
    ranks: tuple[int, ...] = field("the ranks that it meets, as far as they were collected", "Ranks", "参与卡")
    calls: int = field("calls", "Count", "次数")
    ns: int = field("their time", "Total", "总时间")
    flops: int | None = field("operations of one call; null without its shapes", "FLOP", "浮点运算量")
    bytes: int | None = field("what a call sends at least", "Sent", "发送量")
    least_ns: int | None = field("what chip and links need at least, the longer of both", "Least", "最短", of="ns")
    wait_low_ns: int = field("waited for other ranks, at least", "Waits, at least", "等待下限", of="ns")
    wait_high_ns: int | None = field("waited for other ranks, at most", "Waits, at most", "等待上限", of="ns")
    last: int = field("calls at which this rank came last", "Came last", "最后到达次数")


@per_rank(FusedCalls, needs={"kernel": _COLUMNS})
def fused_of(rank: RankTables) -> tuple[FusedCalls, ...]:
    """The calls of fused operators on a rank; empty for most jobs."""
    kernel = rank.table("kernel")
    types = kernel["type"].drop_nulls().unique().to_list()
    names = sorted(name for name in types if fused_kind(name) is not None)
    if not names:
        return ()
    rows = kernel.filter(pl.col("type").is_in(names) & (pl.col("component") == "compute")).sort("start_ns")
    if rows["step"].is_not_null().any():
        rows = rows.filter(pl.col("step").is_not_null())
    return tuple(_calls(rank, name, rows.filter(pl.col("type") == name)) for name in names)


def _calls(rank: RankTables, name: str, rows: pl.DataFrame) -> FusedCalls:
    own = ["input_shapes", "input_dtypes", "output_shapes", "output_dtypes"]
    most = rows.group_by(own, maintain_order=True).agg(pl.col("dur_ns").sum()).sort("dur_ns", descending=True).row(0)
    kind = fused_kind(name)
    inputs, outputs = tensors(most[0], most[1]), tensors(most[2], most[3])
    chip = chip_of(rank.about["chip"])
    link = link_spec(rank.about["chip"], "HCCS")
    precision = next((part.kind.precision for part in inputs if part.kind is not None), "")
    return FusedCalls(
        rank=rank.rank, operator=name, lengths=tuple(rows["dur_ns"].head(_MOST).to_list()),
        flops=fused_flops(kind, inputs, outputs) if kind else None,
        rates=(chip.matrix.get(precision) if chip else None, link.gb_per_s * 1e9 if link else None),
        inputs=most[0], dtypes=most[1], outputs=most[2], output_dtypes=most[3],
    )  # fmt: skip


def fused_operators(
    calls: Sequence[FusedCalls], groups: Mapping[str, Mapping[int, tuple[int, ...]]]
) -> list[FusedOperator]:
    """The waits and work of fused operators on all ranks; `groups` holds members by dimension (`tp`, `ep`) and rank."""
    found: list[FusedOperator] = []
    for operator in sorted({one.operator for one in calls}):
        own = {one.rank: one for one in calls if one.operator == operator}
        for members in _met(operator, own, groups):
            found += _together(operator, [own[rank] for rank in members], groups)
    return sorted(found, key=lambda row: (row.rank, row.operator))


def _met(
    operator: str, own: Mapping[int, FusedCalls], groups: Mapping[str, Mapping[int, tuple[int, ...]]]
) -> list[tuple[int, ...]]:
    """The collected ranks that meet in the operator, by group: as recorded, else all ranks with equally many calls."""
    kind = fused_kind(operator)
    of_rank = groups.get(kind.group if kind else "", {})
    by_members: dict[tuple[object, ...], list[int]] = {}
    for rank, one in sorted(own.items()):
        by_members.setdefault((of_rank.get(rank), len(one.lengths)), []).append(rank)
    return [tuple(ranks) for ranks in by_members.values()]


def _together(
    operator: str, own: Sequence[FusedCalls], groups: Mapping[str, Mapping[int, tuple[int, ...]]]
) -> list[FusedOperator]:
    kind = fused_kind(operator)
    lengths = np.array([one.lengths for one in own], dtype=np.int64)
    shortest = lengths.min(axis=0)
    waits = (lengths - shortest).sum(axis=1)
    last = np.bincount(lengths.argmin(axis=0), minlength=len(own))
    rows = []
    for at, one in enumerate(own):
        members = groups.get(kind.group if kind else "", {}).get(one.rank)
        size = max(len(members or ()), len(own))
        sent = moved_bytes(
            kind, tensors(one.inputs, one.dtypes), tensors(one.outputs, one.output_dtypes), size
        ) if kind else None  # fmt: skip
        whole, count = int(lengths[at].sum()), len(one.lengths)
        least = _least(one, sent, count)
        high = int(waits[at]) if len(own) > 1 else None if least is None else max(0, whole - least)
        rows.append(
            FusedOperator(
                rank=one.rank, operator=operator, collective=kind.collective if kind else "",
                ranks=tuple(other.rank for other in own), calls=count, ns=whole, flops=one.flops, bytes=sent,
                least_ns=least, wait_low_ns=int(waits[at]) if len(own) > 1 else 0, wait_high_ns=high,
                last=int(last[at]) if len(own) > 1 else 0,
            )
        )  # fmt: skip
    return rows


def _least(one: FusedCalls, sent: int | None, count: int) -> int | None:
    """The lower bound in ns for all calls: the chip's time or the links' time, whichever is longer, as both overlap."""
    peak, speed = one.rates
    parts = [one.flops / peak if one.flops and peak else None, sent / speed if sent and speed else None]
    known = [part for part in parts if part is not None]
    return round(max(known) * 1e9) * count if known else None
