"""Finds the stages of a pipeline: the stage of each rank, its compute, and its wait for other stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Literal

import numpy as np
import polars as pl

from hermes.base.intervals import Intervals, union_of_intervals
from hermes.model.structure_measures import Pipeline, Stage
from hermes.model.tables.collective_keys import BETWEEN_TWO
from hermes.model.typical_step import JobSteps

Source = Literal["coordinates", "group", "sends and receives"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageWait:
    """The time that one rank spent on other stages over the capture; in `bubble_ns` it waited without computing."""

    rank: int
    bubble_ns: int
    transfer_ns: int | None
    receives: int
    steps: int
    estimated: bool


def stage_wait(rank: int, own: pl.DataFrame, compute: Intervals, steps: int) -> StageWait | None:
    """The waits of one rank for other stages; None if the rank neither sends nor receives.

    The waits are in sends and receives, and in collectives that a rank of another stage reaches last: such a collective
    waits for the drain of the pipeline.

    `own` are the rank's operations; `elsewhere` tells whether the last rank to arrive is in another stage. If the other
    side's start is unknown, an operation waits for as long as it exceeds the quickest of its kind and size.
    """
    if own["step"].null_count() < own.height:
        own = own.filter(pl.col("step").is_not_null())
    rows = own.filter(pl.col("op").is_in(BETWEEN_TWO))
    if not rows.height:
        return None
    quickest = pl.col("dur_ns").min().over("op", "bytes")
    rows = rows.with_columns(pl.coalesce("wait_ns", pl.col("dur_ns") - quickest).alias("waited_ns"))
    drained = own.filter(~pl.col("op").is_in(BETWEEN_TWO) & pl.col("elsewhere") & (pl.col("wait_ns") > 0))
    spans = ["start_ns", "waited_ns"]
    waited = pl.concat([rows.select(spans), drained.select("start_ns", pl.col("wait_ns").alias("waited_ns"))])
    starts = waited["start_ns"].to_numpy()
    waits = union_of_intervals(starts, starts + waited["waited_ns"].to_numpy())
    known = rows.filter(pl.col("split"))
    return StageWait(
        rank=rank,
        bubble_ns=(waits - compute).total,
        transfer_ns=int((known["dur_ns"] - known["wait_ns"]).sum()) if known.height == rows.height else None,
        receives=rows.filter(pl.col("op") == "recv").height,
        steps=max(steps, 1),
        estimated=known.height < rows.height,
    )


def stages_of(
    coordinates: Mapping[int, int | None], groups: Sequence[tuple[int, ...]], rows: pl.DataFrame
) -> tuple[dict[int, int], Source] | None:
    """The stage of each rank: from recorded coordinates, from pipeline groups, or from who sends to whom first."""
    recorded = {rank: stage for rank, stage in coordinates.items() if stage is not None}
    if len(set(recorded.values())) > 1 or any(recorded.values()):
        return recorded, "coordinates"
    placed = _of_groups(groups)
    if len(set(placed.values())) > 1:
        return placed, "group"
    chained = _chains(rows)
    return (chained, "sends and receives") if chained else None


def _of_groups(groups: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Stages by the order of the members of pipeline groups; empty if groups run in a ring.

    Some frameworks make one group for each pair of neighbours, and one of the first and the last stage for tied
    embeddings. A rank's stage is the longest path to it along overlapping groups.
    """
    before: dict[int, set[int]] = {}
    for members in groups:
        for earlier, later in pairwise(members):
            before.setdefault(earlier, set())
            before.setdefault(later, set()).add(earlier)
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError:
        return {}
    stages: dict[int, int] = {}
    for rank in order:
        stages[rank] = max((stages[one] + 1 for one in before[rank]), default=0)
    return stages


def _chains(rows: pl.DataFrame) -> dict[int, int]:
    """Stages along the first sends: the first stage begins a step with a send, all others with a receive."""
    moves = rows.filter(pl.col("op").is_in(["send", "recv"]) & pl.col("peer").is_not_null()).sort("start_ns", "comm_id")
    if not moves.height:
        return {}
    first = dict(moves.group_by("rank", maintain_order=True).agg(pl.col("op").first()).iter_rows())
    sends = moves.filter(pl.col("op") == "send").group_by("rank", maintain_order=True).agg(pl.col("peer").first())
    towards = dict(sends.iter_rows())
    # A rank that was not collected is still the stage after the rank that sends to it first.
    stages: dict[int, int] = {}
    for begin in sorted(rank for rank, op in first.items() if op == "send"):
        rank, stage = begin, 0
        while rank is not None and rank not in stages:
            stages[rank] = stage
            rank, stage = towards.get(rank), stage + 1
    return stages


def pipeline(
    stages: Mapping[int, int], source: Source, waits: Mapping[int, StageWait], steps: JobSteps
) -> Pipeline | None:
    """The pipeline by stage; None if fewer than two stages are known or nothing passes between them."""
    by_stage: dict[int, list[int]] = {}
    for rank, stage in stages.items():
        by_stage.setdefault(stage, []).append(rank)
    if len(by_stage) < 2 or not waits:
        return None
    found = [_stage(stage, sorted(ranks), waits, steps) for stage, ranks in sorted(by_stage.items())]
    made = tuple(stage for stage in found if stage is not None)
    compute = [stage.compute_ns for stage in made if stage.compute_ns]
    shares = [stage.bubble_ns / stage.window_ns for stage in made if stage.window_ns]
    batches = _micro_batches(by_stage, waits)
    depth = max(by_stage) + 1
    return Pipeline(
        source=source,
        stages=made,
        micro_batches=batches,
        structural_share=(depth - 1) / (batches + depth - 1) if batches else None,
        bubble_share=float(np.mean(shares)) if shares else None,
        imbalance=max(compute) / float(np.mean(compute)) - 1 if len(compute) > 1 else None,
    )


def _stage(stage: int, ranks: Sequence[int], waits: Mapping[int, StageWait], steps: JobSteps) -> Stage | None:
    own = [waits[rank] for rank in ranks if rank in waits]
    if not own:
        return None
    mine = [split for rank in ranks for split in steps.of(rank)]
    computed = [split.compute_ns for split in mine if split.compute_ns is not None]
    moved = [wait.transfer_ns / wait.steps for wait in own if wait.transfer_ns is not None]
    return Stage(
        stage=stage,
        ranks=tuple(wait.rank for wait in own),
        steps=max(wait.steps for wait in own),
        window_ns=round(np.mean([split.window_ns for split in mine])) if mine else None,
        compute_ns=round(np.mean(computed)) if computed else None,
        bubble_ns=round(np.mean([wait.bubble_ns / wait.steps for wait in own])),
        transfer_ns=round(np.mean(moved)) if len(moved) == len(own) else None,
        estimated=any(wait.estimated for wait in own),
    )


def _micro_batches(by_stage: Mapping[int, Sequence[int]], waits: Mapping[int, StageWait]) -> int | None:
    """The number of micro-batches per step: the receives of the last stage, else of the first, which gets gradients."""
    for stage in (max(by_stage), min(by_stage)):
        counts = {waits[rank].receives / waits[rank].steps for rank in by_stage[stage] if rank in waits}
        if len(counts) == 1 and (count := counts.pop()) > 0 and count == int(count):
            return int(count)
    return None
