"""Finds the batches of an inference service by phase: prefill, decode, or both at once.

Batches are known from the profiler of a service, or from the ranges in which a server runs them. vLLM names a range by
its content: `execute_context_2(1776)_generation_3(3)` has two requests in their prefill, with 1776 tokens, and three
that decode. Newer versions of vLLM append more numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from hermes.model.service_measures import Batches, Phase
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.structure.modules import asked_of, nodes_of
from hermes.profiles.measure.structure.named_ranges import RANGES, inclusive

_BATCH = re.compile(r"execute_context_(\d{1,9})\((\d{1,12})[_\d]*\)_generation_(\d{1,9})\((\d{1,12})[_\d]*\)")
_STARTS = "execute_context_"
_PHASES: tuple[Phase | None, ...] = ("prefill", "decode", "mixed", None)


@per_rank(Batches, beside=("batch",))
def batches_of(rank: RankTables) -> tuple[Batches, ...]:
    """The batches of a rank; empty if no profiler or range names any."""
    served = tuple(served_batches(rank.rank, rank.data.table("batch")))
    named = rank.data.where("host_op", RANGES, (pl.col("kind") == "mark") & pl.col("name").str.starts_with(_STARTS))
    if not named.height:
        return served
    return (*served, *batches(rank.rank, named, rank.once(asked_of), rank.once(nodes_of)))


def served_batches(rank: int, rows: pl.DataFrame) -> Iterator[Batches]:
    """One row for each phase of the batches that ran; `rows` are rows of the table `batch`.

    Each process runs the batch: the batches of the process with most of them count.
    """
    ran = rows.filter(pl.col("kind") == ("execute" if (rows["kind"] == "execute").any() else "forward"))
    most = ran.group_by("process", maintain_order=True).len().sort("len", descending=True, maintain_order=True)
    own = ran.filter(pl.col("process").eq_missing(most["process"][0])) if most.height else ran
    for phase in _PHASES:
        part = own.filter(pl.col("phase").eq_missing(pl.lit(phase, pl.String)))
        if part.height:
            yield Batches(
                rank=rank, source="service", phase=phase, batches=part.height, requests=_sum(part["requests"]),
                tokens=_sum(part["tokens"]), host_ns=int(part["dur_ns"].sum()),
                median_ns=int(part["dur_ns"].sort()[part.height // 2]), device_ns=None, kernels=None,
            )  # fmt: skip


def _sum(values: pl.Series) -> int | None:
    return int(values.sum()) if values.null_count() < len(values) else None


def batches(rank: int, named: pl.DataFrame, asked: pl.DataFrame, nodes: pl.DataFrame) -> Iterator[Batches]:
    """One row for each phase that occurs, prefill first."""
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
                rank=rank, source="ranges", phase=phase, batches=len(own), requests=requests, tokens=tokens,
                host_ns=host, median_ns=sorted(one[2] for one in own)[len(own) // 2], device_ns=busy, kernels=launched,
            )  # fmt: skip
