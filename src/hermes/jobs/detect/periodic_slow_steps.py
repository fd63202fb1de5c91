"""Finds slow steps that come at an even distance: checkpoints, evaluations, logging, collections, epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.jobs.detect.read_step_logs import Steps

_LEAST = 4
_DEVIATIONS = 6.0
_RATIO = 1.2
_EVEN = 0.05
_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A period of slow steps: one of every `period` steps takes `extra_ns` more than usual, a `share` of all time."""

    rank: int
    period: int
    count: int
    extra_ns: int
    share: float


def periodic(steps: Steps) -> Periodic | None:
    """The period of a rank's slow steps; None for fewer than four slow steps, or when they come unevenly.

    A slow step takes at least 1.2 times the median, and 6 robust deviations more. Three quarters of the distances must
    lie within 5 % (or one step) of their median, and the median distance must exceed one step.
    """
    usable = np.flatnonzero(~steps.flagged("first", "profiled"))
    if len(usable) < 4 * _LEAST:
        return None
    walls, numbers = steps.of("wall_ns")[usable], steps.columns["step"][usable]
    middle = float(np.median(walls))
    deviation = 1.4826 * float(np.median(np.abs(walls - middle)))
    slow = np.flatnonzero(walls > max(_RATIO * middle, middle + _DEVIATIONS * deviation))
    if len(slow) < _LEAST:
        return None
    distances = np.diff(numbers[slow])
    period = int(np.median(distances))
    even = np.abs(distances - period) <= max(1.0 if period > 10 else 0.0, _EVEN * period)
    if period < 2 or np.mean(even) < _SHARE:
        return None
    extra = float(np.median(walls[slow])) - middle
    share = float((walls[slow] - middle).sum() / walls.sum())
    return Periodic(rank=steps.rank, period=period, count=len(slow), extra_ns=int(extra), share=share)
