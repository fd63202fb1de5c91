"""The noise floor: the loss below which one capture cannot tell a cause from chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepPath
from hermes.model.plan import NoiseFloor
from hermes.model.typical_step import JobSteps

LEAST = Limit(value=0.005, unit="of step", source="docs/evidence/noise.md")
"""No finding counts that could not give this much, however even the steps are."""
_SIGMA = 1.4826
"""Median absolute deviation of a normal distribution to its standard deviation."""
_MEDIAN = 1.2533
"""Standard error of the median over that of the mean, of a normal distribution: the root of pi / 2."""
_STEPS, _RANKS = 3, 3
"""Fewer have no spread to speak of."""


def noise_floor(splits: Sequence[StepSplit], paths: Sequence[StepPath]) -> NoiseFloor:
    """The floor of a capture; zero where no step was measured."""
    # Of a job without a device the host's marks tell how long a step is.
    typical = JobSteps(splits).slowest
    step_ns = typical.window_ns if typical else 0
    spread, of = _spread(splits)
    unexplained = sum(part.ns for part in paths[0].parts if part.component == "unexplained") if paths else None
    least = round(LEAST.value * step_ns)
    return NoiseFloor(
        ns=max(spread or 0, least),
        step_ns=step_ns,
        spread_ns=spread,
        of=of,
        unexplained_ns=unexplained,
        least_ns=least,
    )


def without_profiler(floor: NoiseFloor, spread_ns: int, steps: int) -> NoiseFloor:
    """The floor of a capture of so many steps, by the median absolute deviation of steps that no profiler disturbed."""
    spread = round(_SIGMA * spread_ns * _MEDIAN / max(1, steps) ** 0.5)
    return replace(floor, ns=max(spread, floor.least_ns), spread_ns=spread, of="steps before the capture")


def _spread(splits: Sequence[StepSplit]) -> tuple[int | None, str]:
    by_rank: dict[int, list[int]] = {}
    for split in splits:
        by_rank.setdefault(split.rank, []).append(split.window_ns)
    several = [
        _deviation(windows) * _MEDIAN / len(windows) ** 0.5 for windows in by_rank.values() if len(windows) >= _STEPS
    ]
    if several:
        return round(median(several)), "steps"
    if len(by_rank) >= _RANKS:
        return round(_deviation([round(median(windows)) for windows in by_rank.values()])), "ranks"
    return None, "not measured: too few steps and ranks"


def _deviation(values: Sequence[int]) -> float:
    middle = median(values)
    return _SIGMA * median(abs(value - middle) for value in values)
