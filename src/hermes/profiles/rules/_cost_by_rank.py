"""Finds the ranks whose cost exceeds a limit, as a share of the window or the step; many rules use this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.base.units import duration
from hermes.model.finding import Evidence, step_moment
from hermes.model.job import Job
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules.rule import by_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The ranks on which a cost exceeds its limit, the worst of these ranks, and the cost on every rank."""

    ranks: tuple[int, ...]
    worst: StepSplit
    cost_ns: int
    share: float
    costs: Mapping[int, int]
    evidence: tuple[Evidence, ...]


def loss(
    job: Job,
    what: Message,
    limit: Limit,
    cost: Callable[[StepSplit], int | None],
    length: Callable[[StepSplit], int] = lambda split: split.window_ns,
) -> Spent | None:
    """The ranks whose cost in the typical step exceeds the limit; None if there is no such rank.

    `cost` is in nanoseconds a step; `length` is the time of which the cost is a share.
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


def percents(share: float) -> float:
    """A share in whole percents for sentences, halves rounded to even."""
    return round(100 * share) / 100


def steps_of(job: Job, ranks: Sequence[int]) -> int:
    """The number of steps of these ranks together, at least 1."""
    return max(1, sum(job.steps.counts.get(rank, 0) for rank in ranks))


def typical(job: Job) -> list[StepSplit]:
    """The typical step of each rank, by rank: among steps measured on the device, else on the host."""
    return sorted(JobSteps(job.steps.every).typical_of_each, key=lambda split: split.rank)


def place(job: Job, split: StepSplit) -> str:
    """A step in words: rank, step, length, and the input that it was read from."""
    step = "whole capture" if split.step is None else f"step {split.step}"
    file = job.inputs.get(split.rank, "")
    return f"rank {split.rank}, {step}, {duration(split.window_ns)} long ({file})"
