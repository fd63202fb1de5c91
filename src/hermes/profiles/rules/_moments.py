"""Where a finding shows: a moment of each rank that it concerns, the one that shows it best first."""

from __future__ import annotations

from hermes.model.finding import Loss, Moment, step_moment
from hermes.model.measures import StepSplit
from hermes.model.typical_step import JobSteps

_MOST = 64
"""Ranks; a job may have thousands, of which these speak for all."""


def moments(finding: Loss, steps: JobSteps) -> tuple[Moment, ...]:
    """The first event that the evidence names, else a step that it names, else the first rank's typical step.

    Then of each other rank, and of each that is blamed and was collected, the event that the evidence names of it, else
    its step of the same number, else its typical one.
    """
    named = [item.at for item in finding.evidence if item.at]
    ordered = [at for at in named if not at.whole] + [at for at in named if at.whole]
    found: dict[int, Moment] = {}
    for at in ordered:
        found.setdefault(at.rank, at)
    blamed = (one.rank for one in finding.blames if one.is_rank and one.rank is not None)
    number = _number(ordered[0], steps) if ordered else None
    for rank in (*finding.ranks[:1], *blamed, *finding.ranks[1 : 2 * _MOST]):
        if rank not in found and (split := _step(rank, number, steps)):
            found[rank] = step_moment(split)
    return tuple(found.values())[:_MOST]


def _number(at: Moment, steps: JobSteps) -> int | None:
    """The number of the step that a moment lies in."""
    inside = (split for split in steps.of(at.rank) if split.start_ns <= at.start_ns < split.start_ns + split.window_ns)
    return next((split.step for split in inside), None)


def _step(rank: int, number: int | None, steps: JobSteps) -> StepSplit | None:
    same = (split for split in steps.of(rank) if number is not None and split.step == number)
    return next(same, None) or steps.typical(rank)
