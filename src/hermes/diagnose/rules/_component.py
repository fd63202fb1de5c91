"""The shape that three rules share: a component's exposed share of the window, on every rank that is beyond a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes.analyze.breakdown import median_split
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Evidence
from hermes.diagnose.rule import Measures, Threshold, by_share


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The ranks on which a component costs more than its limit, and the worst of them."""

    ranks: tuple[int, ...]
    worst: StepSplit
    cost_ns: int
    share: float
    evidence: tuple[Evidence, ...]


def loss(measures: Measures, what: str, limit: Threshold, cost: Callable[[StepSplit], int | None]) -> Loss | None:
    """Per rank the step of median window; None when no rank is beyond the limit."""
    beyond: list[tuple[int, StepSplit]] = []
    for split in typical(measures):
        ns = cost(split)
        if ns is not None and by_share(limit, ns / split.window_ns):
            beyond.append((ns, split))
    if not beyond:
        return None
    ns, worst = max(beyond, key=lambda one: (one[0], -one[1].rank))
    return Loss(
        ranks=tuple(split.rank for _, split in beyond),
        worst=worst,
        cost_ns=ns,
        share=ns / worst.window_ns,
        evidence=(
            Evidence(
                what=what,
                value=round(ns / worst.window_ns, 6),
                unit="of window",
                threshold=limit.value,
                where=place(measures, worst),
            ),
            Evidence(what=what, value=float(ns), unit="ns", threshold=None, where=place(measures, worst)),
        ),
    )


def typical(measures: Measures) -> list[StepSplit]:
    """The step of median window of each rank that has one with a length, by rank."""
    own: dict[int, list[StepSplit]] = {}
    for split in measures.splits:
        own.setdefault(split.rank, []).append(split)
    found = [median_split(own[rank]) for rank in sorted(own)]
    return [split for split in found if split is not None and split.window_ns]


def place(measures: Measures, split: StepSplit) -> str:
    """Where a step stands: rank, step, moment, and the input it was read from."""
    step = "whole capture" if split.step is None else f"step {split.step}"
    file = measures.inputs.get(split.rank, "")
    return f"rank {split.rank}, {step}, from {split.start_ns} ns for {split.window_ns} ns ({file})"
