"""Finds the moment in the timeline that shows a finding best, for each rank of the finding."""

from __future__ import annotations

from hermes.model.finding import FindingMoment, Loss, step_moment
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps

_MOST = 64
"""The most ranks with a moment; a job may have thousands of ranks."""


def moments(finding: Loss, steps: JobSteps) -> tuple[FindingMoment, ...]:
    """The moments of a finding: first the evidence's first event, else its step, else the first rank's typical step.

    Moments of the other ranks follow, and of blamed ranks with a capture. Each is the rank's event in the evidence,
    else the rank's step of the same number, else the rank's typical step.
    """
    named = [item.at for item in finding.evidence if item.at]
    ordered = [at for at in named if not at.whole] + [at for at in named if at.whole]
    found: dict[int, FindingMoment] = {}
    for at in ordered:
        found.setdefault(at.rank, at)
    blamed = (one.rank for one in finding.blames if one.is_rank and one.rank is not None)
    number = _number(ordered[0], steps) if ordered else None
    for rank in (*finding.ranks[:1], *blamed, *finding.ranks[1 : 2 * _MOST]):
        if rank not in found and (split := _step(rank, number, steps)):
            found[rank] = step_moment(split)
    return tuple(found.values())[:_MOST]


def _number(at: FindingMoment, steps: JobSteps) -> int | None:
    """The number of the step that contains a moment."""
    inside = (split for split in steps.of(at.rank) if split.start_ns <= at.start_ns < split.start_ns + split.window_ns)
    return next((split.step for split in inside), None)


def _step(rank: int, number: int | None, steps: JobSteps) -> StepSplit | None:
    same = (split for split in steps.of(rank) if number is not None and split.step == number)
    return next(same, None) or steps.typical(rank)
