"""Draws the work of pipeline stages in one step as boxes: passes of micro-batches, sends and receives, on one clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from hermes.base.intervals import union_of_intervals
from hermes.model.step_measures import StepSplit
from hermes.model.structure_measures import PassKind, PipelineBox, StagePasses
from hermes.profiles.engines.engine import Engine, results_in_rank_order
from hermes.profiles.load import Loaded, present
from hermes.profiles.measure.structure import micro_batch_passes
from hermes.profiles.pipeline.job_outline import JobOutline
from hermes.store.rank_data import RankData

MOST_STAGES = 64
_MOST_BOXES = 4_000
_MOVES: dict[str, PassKind] = {"send": "send", "recv": "receive", "send_recv": "send and receive"}
_PASSES = ("forward", "backward", "compute")


def stage_boxes(
    loaded: Loaded, job: JobOutline, step: int | None = None, *, engine: Engine | None = None
) -> tuple[tuple[StagePasses, ...], tuple[PipelineBox, ...]]:
    """The passes and boxes of one rank of each stage, in a step that all of them have; empty without a pipeline.

    By default the job's typical step is taken. If there are more boxes than a chart can show, the longest are kept.
    """
    shown = _chosen(job, step)
    if len(shown) < 2:
        return (), ()
    offsets = {clock.rank: clock.offset_ns for clock in job.clocks}
    data = {rank.rank: rank for rank in loaded.ranks}
    moves = _moves(job)
    stages = job.stages[0] if job.stages else {}
    asked = {split.rank: StageAsked(data=data[split.rank], split=split) for split in shown}
    apart = engine is not None and engine.remote
    rows = (
        dict(zip(sorted(asked), results_in_rank_order(engine.map(stage_rows, asked)), strict=True))
        if engine and apart
        else {}
    )
    found: list[PipelineBox] = []
    for split in shown:
        own = moves.filter((pl.col("rank") == split.rank) & (pl.col("step") == split.step))
        read = rows[split.rank] if apart else stage_rows(asked[split.rank])
        made = micro_batch_passes.passes(read, own)
        found += _boxes(split, stages[split.rank], offsets.get(split.rank, 0), made, own)
    found = _numbered(found)
    if not any(box.kind in _PASSES for box in found):
        return (), ()
    first = min(box.at_ns for box in found)
    longest = sorted(found, key=lambda box: -box.dur_ns)[:_MOST_BOXES]
    ordered = sorted(longest, key=lambda box: (box.stage, box.rank, box.at_ns, -box.dur_ns))
    return tuple(_sums(found)), tuple(replace(box, at_ns=box.at_ns - first) for box in ordered)


def _chosen(job: JobOutline, step: int | None) -> list[StepSplit]:
    """The same step of one rank of each stage: ranks of one pipeline, if its members are recorded."""
    slowest = job.steps.slowest
    if job.stages is None or slowest is None:
        return []
    wanted = slowest.step if step is None else step
    stages = {rank: stage for rank, stage in job.stages[0].items() if rank in set(job.collected)}
    lines = [info.members or () for identity, info in job.groups.items() if job.kinds[identity] == "pp"]
    line = next((set(line) for line in lines if slowest.rank in line), set())
    # For each stage, take the rank in the slowest rank's pipeline, else the first rank.
    ranks: dict[int, int] = {}
    for rank, stage in sorted(stages.items(), key=lambda item: (item[0] not in line, item[0])):
        ranks.setdefault(stage, rank)
    splits = [split for rank in ranks.values() for split in job.steps.of(rank) if split.step == wanted is not None]
    return sorted(splits, key=lambda split: (stages[split.rank], split.rank))[:MOST_STAGES]


def _moves(job: JobOutline) -> pl.DataFrame:
    """Sends and receives: only those of groups that serve a pipeline, if any group does."""
    rows = job.made.rows.filter(pl.col("op").is_in(list(_MOVES)))
    lines = [identity for identity, kind in job.kinds.items() if kind == "pp"]
    own = rows.filter(pl.col("group").is_in(lines))
    return own if own.height else rows


@dataclass(frozen=True, slots=True, kw_only=True)
class StageAsked:
    """A request for one step of one rank: its tables and the split of the step."""

    data: RankData
    split: StepSplit


def stage_rows(asked: StageAsked) -> micro_batch_passes.PassRows:
    """The device's compute tasks in a step, and the calls around their launches."""
    data, split = present(asked.data), asked.split
    kernel = data.where(
        "kernel", micro_batch_passes.KERNEL, (pl.col("step") == split.step) & (pl.col("component") == "compute")
    )
    moments = [kernel["launch_ns"].min(), kernel["start_ns"].min(), kernel["start_ns"].max()]
    known = [one for one in moments if isinstance(one, int)]
    first, last = (min(known) - 1, max(known) + 1) if known else (0, 0)
    return micro_batch_passes.PassRows(
        kernel=kernel,
        host_op=data.between("host_op", micro_batch_passes.HOST_OP, first, last),
        flow=data.between("flow", micro_batch_passes.FLOW, first, last),
    )


def _boxes(
    split: StepSplit, stage: int, offset_ns: int, made: Sequence[micro_batch_passes.MicroBatchPass], moves: pl.DataFrame
) -> Iterable[PipelineBox]:
    """The boxes of a rank; `at_ns` is a moment on the common clock until the boxes of all ranks are known."""
    for one in made:
        yield PipelineBox(
            rank=split.rank, stage=stage, step=split.step or 0, kind=one.kind, micro_batch=None,
            at_ns=one.start_ns + offset_ns, dur_ns=one.end_ns - one.start_ns,
            gaps_ns=one.end_ns - one.start_ns - one.busy_ns, wait_ns=None, kernels=one.kernels, start_ns=one.start_ns,
        )  # fmt: skip
    for op, start, dur, wait in moves.select("op", "start_ns", "dur_ns", "wait_ns").iter_rows():
        yield PipelineBox(
            rank=split.rank, stage=stage, step=split.step or 0, kind=_MOVES[op], micro_batch=None,
            at_ns=start + offset_ns, dur_ns=dur, gaps_ns=None, wait_ns=wait, kernels=None, start_ns=start,
        )  # fmt: skip


def _numbered(boxes: Sequence[PipelineBox]) -> list[PipelineBox]:
    """The boxes with their micro-batch numbers, if all stages have equally many passes of that kind."""
    counts: Counter[tuple[str, int]] = Counter((box.kind, box.rank) for box in boxes)
    ranks = {box.rank for box in boxes}
    even = {kind for kind in _PASSES if len({counts[kind, rank] for rank in ranks}) == 1}
    # Forward and backward passes belong to the same micro-batches: if their counts differ, neither kind is numbered.
    if {"forward", "backward"} <= even and len({counts[kind, min(ranks)] for kind in ("forward", "backward")}) > 1:
        even -= {"forward", "backward"}
    number: Counter[tuple[str, int]] = Counter()
    found = []
    for box in sorted(boxes, key=lambda box: box.at_ns):
        if box.kind in even:
            found.append(replace(box, micro_batch=number[box.kind, box.rank]))
            number[box.kind, box.rank] += 1
        else:
            found.append(box)
    return found


def _sums(boxes: Sequence[PipelineBox]) -> Iterable[StagePasses]:
    """Sums over the boxes of each rank: its passes and their median times."""
    of_rank: dict[int, list[PipelineBox]] = {}
    for box in boxes:
        of_rank.setdefault(box.rank, []).append(box)
    for rank, own in sorted(of_rank.items(), key=lambda item: (item[1][0].stage, item[0])):
        computed = [box for box in own if box.kernels is not None]
        starts = np.array([box.start_ns for box in computed], dtype=np.int64)
        spans = union_of_intervals(starts, starts + np.array([box.dur_ns for box in computed], dtype=np.int64))
        window = max(box.start_ns + box.dur_ns for box in own) - min(box.start_ns for box in own)
        gaps = sum(box.gaps_ns or 0 for box in computed)
        waits = [box.wait_ns for box in own if box.kernels is None]
        times = {kind: [box.dur_ns for box in own if box.kind == kind] for kind in _PASSES}
        yield StagePasses(
            rank=rank, stage=own[0].stage, step=own[0].step, window_ns=window,
            forwards=len(times["forward"]), forward_ns=_median(times["forward"]),
            backwards=len(times["backward"]), backward_ns=_median(times["backward"]),
            idle_ns=window - spans.total + gaps,
            waited_ns=sum(filter(None, waits)) if waits and None not in waits else None,
        )  # fmt: skip


def _median(times: Sequence[int]) -> int | None:
    return int(np.median(times)) if times else None
