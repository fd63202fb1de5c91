"""The first round for one rank: its outline, which the measures of other ranks need.

The outline holds steps, collectives with their keys, process groups, and the rank's settings. It is cheap: only a few
columns of the wide tables are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.number_ranges import Runs, packed
from hermes.knowledge.recorders import MSPROF, recorder_of
from hermes.model.report import Input
from hermes.model.step_measures import StepSplit
from hermes.profiles import messages
from hermes.profiles.measure.communication.last_arrivals import identified_operations, longest_peer_waits, with_keys
from hermes.profiles.measure.communication.wait_and_transfer import group_info
from hermes.profiles.measure.leaves.call_trees import RANGES
from hermes.profiles.measure.steps.breakdown import ascend_splits, reported_splits, step_splits, summed_splits
from hermes.profiles.pipeline.check_step_marks import step_doubts
from hermes.profiles.pipeline.profiler_step_split import contradictions
from hermes.store.rank_data import RankData

MOST_OPERATIONS = 16_384
"""The most collectives of a rank that are compared with other ranks: the first ones of the capture.

A collective takes about 30 bytes, and a rank may send 1 MB.
"""
_KERNEL = ("rank", "component", "start_ns", "dur_ns", "step", "device_id", "stream", "launch_ns")
_COMM_OP = (
    "rank", "comm_id", "op", "group", "name", "sequence", "peer", "start_ns", "dur_ns", "step", "bytes", "library",
    "stream", "launch_ns",
)  # fmt: skip
_WAIT = ("rank", "comm_id", "task", "plane", "peer_rank", "start_ns", "dur_ns", "bytes", "link")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """A process group as one rank knows it; `members` are its global ranks if all are recorded."""

    identity: str
    label: str
    members: Runs | None
    size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOutline:
    """The outline of one rank before it is measured: its input, groups, steps and collectives.

    `operations` are made by `arrivals.with_keys`; their column `named` says whether waits by peer were recorded. `late`
    is made by `last_arrivals.longest_peer_waits`. `highest` is the highest global rank or member of the rank's groups.
    `summed`: the capture holds sums, and no timeline. `host`: calls of the host were recorded, not only marks of steps
    and ranges.
    """

    rank: int
    input: Input
    world_size: int | None
    framework: str | None
    summed: bool
    host: bool
    highest: int | None
    groups: tuple[RankGroup, ...]
    splits: tuple[StepSplit, ...]
    doubts: tuple[Diagnostic, ...]
    operations: pl.DataFrame
    late: pl.DataFrame


def outline(data: RankData) -> RankOutline:
    """The outline of one rank, from its own tables."""
    row = data.table("rank").row(0, named=True)
    step, kernel, comm_op = data.table("step"), data.table("kernel", *_KERNEL), data.table("comm_op", *_COMM_OP)
    group, waits = data.table("group"), data.table("comm_task", *_WAIT)
    doubts = _contradictions(data, step, kernel, comm_op)
    summed = summed_alone(data, kernel, comm_op)
    # A service has requests and no steps: its missing step marks are no mistake.
    if kernel.height or not (summed or data.table("request", "request").height):
        doubts += step_doubts(data.place, step, kernel, starts=recorder_of(data.format, row["framework"]) is MSPROF)
    named = waits.filter((pl.col("task") == "notify_wait") & pl.col("peer_rank").is_not_null())["comm_id"]
    own = with_keys(data.rank, identified_operations(data.rank, comm_op, group))
    if own.height > MOST_OPERATIONS:
        doubts.append(_too_many(data, own.height))
        own = own.sort("start_ns", "comm_id").head(MOST_OPERATIONS)
    highest = [value for value in (group["global_rank"].max(), group["member"].max()) if isinstance(value, int)]
    return RankOutline(
        rank=data.rank,
        input=_input(data, row, doubts),
        world_size=row["world_size"],
        framework=row["framework"],
        summed=summed,
        host=data.holds("host_op", ~pl.col("kind").is_in(RANGES)),
        highest=max(highest, default=None),
        groups=tuple(
            RankGroup(
                identity=identity, label=info.label, members=packed(info.members) if info.members else None,
                size=info.size,
            )
            for identity, info in group_info(group).items()
        ),
        splits=_splits(data, step, kernel, comm_op),
        doubts=tuple(doubts),
        operations=own.drop("rank", "sequence").with_columns(
            pl.col("comm_id").is_in(named.drop_nulls().unique().implode()).alias("named")
        ),
        late=longest_peer_waits(waits),
    )  # fmt: skip


def _splits(data: RankData, step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> tuple[StepSplit, ...]:
    """The steps of the rank; the profiler's own, if neither marks nor work of the device were recorded."""
    found = step_splits(step, kernel, comm_op, data.scan("host_op"))
    if any(split.compute_ns is not None or split.window_kind != "capture" for split in found):
        return found
    return summed_splits(data.table("step_reported")) or found


def summed_alone(data: RankData, kernel: pl.DataFrame, comm_op: pl.DataFrame) -> bool:
    """Whether a capture holds the profiler's own sums, and no timeline of device or host."""
    if kernel.height or comm_op.height or data.holds("host_op", pl.lit(value=True)):
        return False
    return any(data.holds(name, pl.lit(value=True)) for name in ("statistic", "step_reported"))


def _contradictions(
    data: RankData, step: pl.DataFrame, kernel: pl.DataFrame, comm_op: pl.DataFrame
) -> list[Diagnostic]:
    """Notes on steps in which the profiler's own split contradicts the tasks."""
    reported = reported_splits(data.table("step_reported"))
    return contradictions(data.place, ascend_splits(step, kernel, comm_op), reported) if reported else []


def _input(data: RankData, row: dict[str, object], doubts: list[Diagnostic]) -> Input:
    degraded = tuple(note.message for note in (*data.notes, *doubts) if note.level == "degraded")
    told = {name: row[name] for name in ("capture", "level", "chip", "vendor", "host", "tp", "pp", "dp", "cp", "ep")}
    return Input(path=data.place, format=data.format, rank=data.rank, degraded=degraded, **told)  # type: ignore[arg-type]


def _too_many(data: RankData, count: int) -> Diagnostic:
    return Diagnostic(
        level="degraded",
        message=messages.too_many_operations(most=MOST_OPERATIONS),
        where=data.place,
        lost=messages.lost_last_waits(n=count - MOST_OPERATIONS),
        hint=messages.DO_FEWER_STEPS,
    )
