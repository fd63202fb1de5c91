"""What rules share: a cost by rank, as a share of the window or the step, and the ranks beyond a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hermes.analyze.breakdown import median_split, middle_split
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Evidence, step_moment
from hermes.diagnose.rule import Measures, Threshold, by_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The ranks on which something costs more than its limit, the worst of them, and what it costs every rank.

    `calls` is how many recorded calls a step the cost holds on the worst rank, `fresh` the part of the bytes of large
    new tensors that these make there; None where it is not counted.
    """

    ranks: tuple[int, ...]
    worst: StepSplit
    cost_ns: int
    share: float
    costs: Mapping[int, int]
    evidence: tuple[Evidence, ...]
    calls: float | None = None
    fresh: float | None = None


def loss(
    measures: Measures,
    what: str,
    limit: Threshold,
    cost: Callable[[StepSplit], int | None],
    length: Callable[[StepSplit], int] = lambda split: split.window_ns,
) -> Loss | None:
    """Per rank the step of median window; None when no rank is beyond the limit.

    `cost` is in nanoseconds a step, `length` what it is a share of.
    """
    costs: dict[int, int] = {}
    beyond: list[tuple[int, StepSplit]] = []
    for split in typical(measures):
        ns = cost(split)
        if ns is None or not length(split):
            continue
        costs[split.rank] = ns
        if by_share(limit, ns / length(split)):
            beyond.append((ns, split))
    if not beyond:
        return None
    ns, worst = max(beyond, key=lambda one: (one[0], -one[1].rank))
    share, where, at = ns / length(worst), place(measures, worst), step_moment(worst)
    return Loss(
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


def steps_of(measures: Measures, ranks: Sequence[int]) -> int:
    """Steps of these ranks together, at least 1."""
    return max(1, sum(measures.steps_of_rank.get(rank, 0) for rank in ranks))


def typical(measures: Measures) -> list[StepSplit]:
    """The step of median window of each rank, by rank: of those that the device measured, else of those of the host."""
    own: dict[int, list[StepSplit]] = {}
    for split in measures.splits:
        own.setdefault(split.rank, []).append(split)
    found = [median_split(own[rank]) or middle_split(own[rank]) for rank in sorted(own)]
    return [split for split in found if split.window_ns]


def place(measures: Measures, split: StepSplit) -> str:
    """Where a step stands: rank, step, moment, and the input it was read from."""
    step = "whole capture" if split.step is None else f"step {split.step}"
    file = measures.inputs.get(split.rank, "")
    return f"rank {split.rank}, {step}, from {split.start_ns} ns for {split.window_ns} ns ({file})"
