"""What rules share: a cost by rank, as a share of the window or the step, and the ranks beyond a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermes.base.message import Text
from hermes.base.units import duration
from hermes.model.finding import Evidence, step_moment
from hermes.model.job import Job
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules.rule import by_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The ranks on which something costs more than its limit, the worst of them, and what it costs every rank."""

    ranks: tuple[int, ...]
    worst: StepSplit
    cost_ns: int
    share: float
    costs: Mapping[int, int]
    evidence: tuple[Evidence, ...]


def loss(
    job: Job,
    what: Text,
    limit: Limit,
    cost: Callable[[StepSplit], int | None],
    length: Callable[[StepSplit], int] = lambda split: split.window_ns,
) -> Spent | None:
    """Per rank the step of median window; None when no rank is beyond the limit.

    `cost` is in nanoseconds a step, `length` what it is a share of.
    """
    costs: dict[int, int] = {}
    beyond: list[tuple[int, StepSplit]] = []
    for split in typical(job):
        ns = cost(split)
        if ns is None or not length(split):
            continue
        costs[split.rank] = ns
        if by_share(limit, ns / length(split)):
            beyond.append((ns, split))
    if not beyond:
        return None
    ns, worst = max(beyond, key=lambda one: (one[0], -one[1].rank))
    share, where, at = ns / length(worst), place(job, worst), step_moment(worst)
    return Spent(
        ranks=tuple(split.rank for _, split in beyond),
        worst=worst,
        cost_ns=ns,
        share=share,
        costs=costs,
        evidence=(
            Evidence(what=what, value=round(share, 6), unit=limit.unit, threshold=limit.value, where=where, at=at),
            Evidence(what=what, value=float(ns), unit="ns", threshold=None, where=where, at=at),
        ),
    )


def steps_of(job: Job, ranks: Sequence[int]) -> int:
    """Steps of these ranks together, at least 1."""
    return max(1, sum(job.steps.counts.get(rank, 0) for rank in ranks))


def typical(job: Job) -> list[StepSplit]:
    """The step of median window of each rank, by rank: of those that the device measured, else of those of the host."""
    return sorted(JobSteps(job.steps.every).typical_of_each, key=lambda split: split.rank)


def place(job: Job, split: StepSplit) -> str:
    """Which step it is: rank, step, length, and the input it was read from."""
    step = "whole capture" if split.step is None else f"step {split.step}"
    file = job.inputs.get(split.rank, "")
    return f"rank {split.rank}, {step}, {duration(split.window_ns)} long ({file})"
