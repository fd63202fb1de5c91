"""Batches of inference by phase, from the ranges in which a server runs them: prefill, decode, or both at once.

vLLM names a range by what it holds: `execute_context_2(1776)_generation_3(3)` has two requests in their prefill, with
1776 tokens, and three that decode; newer versions add more numbers behind those of the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import polars as pl

from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.structure.modules import asked_of, nodes_of
from hermes.profiles.measure.structure.ranges import RANGES, inclusive

Phase = Literal["prefill", "decode", "mixed"]
_BATCH = re.compile(r"execute_context_(\d{1,9})\((\d{1,12})[_\d]*\)_generation_(\d{1,9})\((\d{1,12})[_\d]*\)")
_STARTS = "execute_context_"


@measure(
    "compute.batches",
    title="Batches of inference",
    zh="推理批次",
    about="From the ranges that vLLM names by what a batch holds; sums over the capture.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """All batches of one phase on one rank."""

    rank: int = field("global rank", "Rank", "卡")
    phase: Phase = field("`prefill`, `decode`, or `mixed` of both", "Phase", "阶段")
    batches: int = field("batches", "Batches", "批次数")
    requests: int = field("requests in them, added up", "Requests", "请求数")
    tokens: int = field("tokens in them, added up", "Tokens", "词元数")
    host_ns: int = field("time on the host", "On the host", "主机时间")
    median_ns: int = field("of the batch of median time on the host", "Median batch", "中位批次")
    device_ns: int = field("time of what they launched, added up", "On the device", "设备时间")
    kernels: int = field("kernels and copies", "Kernels", "核函数数")


@per_rank(Batches)
def batches_of(rank: RankTables) -> tuple[Batches, ...]:
    """The batches of a rank; none where nothing names any."""
    named = rank.data.where("host_op", RANGES, (pl.col("kind") == "mark") & pl.col("name").str.starts_with(_STARTS))
    if not named.height:
        return ()
    return tuple(batches(rank.rank, named, rank.once(asked_of), rank.once(nodes_of)))


def batches(rank: int, named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[Batches]:
    """One row for each phase that is there, prefill first."""
    named, device, kernels, _ = inclusive(named, asked, nodes)
    rows: dict[Phase, list[tuple[int, int, int, int, int]]] = {"prefill": [], "decode": [], "mixed": []}
    for at, (name, length) in enumerate(named.select("name", "dur_ns").iter_rows()):
        found = _BATCH.fullmatch(name)
        if found is None:
            continue
        context, read, generation, written = map(int, found.groups())
        phase: Phase = "mixed" if context and generation else "decode" if generation else "prefill"
        rows[phase].append((context + generation, read + written, length, int(device[at]), int(kernels[at])))
    for phase, own in rows.items():
        if own:
            requests, tokens, host, busy, launched = (sum(column) for column in zip(*own, strict=True))
            yield Batches(
                rank=rank, phase=phase, batches=len(own), requests=requests, tokens=tokens, host_ns=host,
                median_ns=sorted(one[2] for one in own)[len(own) // 2], device_ns=busy, kernels=launched,
            )  # fmt: skip
