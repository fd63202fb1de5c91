"""The noise floor: the loss below which one capture cannot tell a cause from chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hermes.model.limit import Limit
from hermes.model.path_measures import StepPath
from hermes.model.plan import MEDIAN, NoiseFloor
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps

LEAST = Limit(value=0.005, unit="of step", source="docs/evidence/noise.md")
"""The least gain that counts, as a share of the step, however even the steps are."""
_SIGMA = 1.4826
"""Factor from a median absolute deviation to the standard deviation of a normal distribution."""
_STEPS, _RANKS = 3, 3
"""The fewest steps, and the fewest ranks, whose spread is computed."""


def noise_floor(splits: Sequence[StepSplit], paths: Sequence[StepPath]) -> NoiseFloor:
    """The noise floor of a capture; zero if no step was measured."""
    step_ns = JobSteps(splits).length_ns
    spread, of, single, steps = _spread(splits)
    unexplained = sum(part.ns for part in paths[0].parts if part.component == "unexplained") if paths else None
    least = round(LEAST.value * step_ns)
    return NoiseFloor(
        ns=max(spread or 0, least),
        step_ns=step_ns,
        spread_ns=spread,
        of=of,
        unexplained_ns=unexplained,
        least_ns=least,
        single_ns=single,
        steps=steps,
    )


def noise_floor_of_step(floor: NoiseFloor, step_ns: int, *, marked: bool) -> NoiseFloor:
    """The noise floor for a step of at least `step_ns`: the path of waits may be longer than the steps of a rank.

    Without step marks the step is the whole capture, and the floor is a share of the capture.
    """
    step_ns = max(floor.step_ns, step_ns)
    least = floor.least_ns if marked else round(LEAST.value * step_ns)
    return replace(floor, ns=max(floor.ns, least), step_ns=step_ns, least_ns=least)


def without_profiler(floor: NoiseFloor, spread_ns: int, steps: int) -> NoiseFloor:
    """The noise floor from the median absolute deviation `spread_ns` of `steps` steps, captured or earlier."""
    single = _SIGMA * spread_ns
    spread = round(single * MEDIAN / max(1, steps) ** 0.5)
    return replace(
        floor, ns=max(spread, floor.least_ns), spread_ns=spread, of="steps before the capture",
        single_ns=round(single), steps=max(1, steps),
    )  # fmt: skip


def _spread(splits: Sequence[StepSplit]) -> tuple[int | None, str, int | None, int]:
    by_rank: dict[int, list[int]] = {}
    for split in splits:
        by_rank.setdefault(split.rank, []).append(split.window_ns)
    several = [(_deviation(windows), len(windows)) for windows in by_rank.values() if len(windows) >= _STEPS]
    if several:
        spread = round(median(single * MEDIAN / steps**0.5 for single, steps in several))
        return spread, "steps", round(median(single for single, _ in several)), min(steps for _, steps in several)
    if len(by_rank) >= _RANKS:
        spread = round(_deviation([round(median(windows)) for windows in by_rank.values()]))
        return spread, "ranks", spread, 1
    return None, "not measured: too few steps and ranks", None, 0


def _deviation(values: Sequence[int]) -> float:
    middle = median(values)
    return _SIGMA * median(abs(value - middle) for value in values)
