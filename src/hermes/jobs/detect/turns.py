"""Slowness by turns: every fourth step, or one in twenty at random, takes a multiple; most steps stay as they were.

The median does not move, so the count of slow steps is compared: those of the last 100, 200 and 400 steps with those of
the reference. Slow steps in a row count once, since what comes in bursts is no evidence that it comes more often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hermes.jobs.detect.ranksum import Floats

WINDOWS = (100, 200, 400)
_HEIGHTS = (1.0, 3.0, 9.0)
"""Limits of what is slow, as multiples of the least one: where single slow steps are usual, higher ones may not be."""
_EVIDENCE = 16.0
_EFFECT = 0.06
_MOST = 0.6
_EVEN = 0.75
_LEAST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """In the last `length` steps slow ones come more often: one every `period` steps, or 0 where unevenly."""

    length: int
    period: int
    score: float


def slow_limit(reference: Floats) -> float:
    """What a step of a series must take to count as slow: far above the reference's own scatter."""
    middle = float(np.median(reference))
    deviation = 1.4826 * float(np.median(np.abs(reference - middle)))
    return max(1.25 * middle, middle + 5 * deviation, 1.1 * float(np.quantile(reference, 0.98)))


def by_turns(values: Floats, most_reference: int) -> Turns | None:
    """Whether slow steps come more often in the latest of `values` than in the first, and cost 6 % of all time more."""
    for window in WINDOWS:
        size = min(most_reference, len(values) - window)
        if size < max(_LEAST, window // 2):
            return None
        reference, last = values[:size], values[len(values) - window :]
        if float(last.mean()) >= (1 + _EFFECT) * float(reference.mean()) and (found := _more(reference, last)):
            return found
    return None


def _more(reference: Floats, last: Floats) -> Turns | None:
    limit, middle = slow_limit(reference), float(np.median(reference))
    # Where most steps are slow it is the level that has changed.
    if float((last > limit).mean()) > _MOST:
        return None
    for height in _HEIGHTS:
        slow = _starts(last > limit * height)
        score = evidence(len(slow), len(last), len(_starts(reference > limit * height)), len(reference))
        cost = float((last[last > limit * height] - middle).sum()) / (middle * len(last))
        if score >= _EVIDENCE and cost >= _EFFECT:
            return Turns(length=len(last) - int(slow[0]), period=_period(slow), score=score)
    return None


def evidence(count: int, window: int, before: int, size: int) -> float:
    """Minus the logarithm of the chance that so many of `count + before` events fall into `window` of all steps.

    The bound of Chernoff for a binomial; 0 where no more fall into it than should.
    """
    total, share = count + before, window / (window + size)
    if not total or count <= share * total:
        return 0.0
    here = count / total
    rest = (1 - here) * math.log((1 - here) / (1 - share)) if here < 1 else 0.0
    return total * (here * math.log(here / share) + rest)


def _starts(slow: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Where each run of slow steps begins."""
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.flatnonzero(slow & ~np.append(False, slow[:-1]))
    return found


def _period(starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    if len(starts) < 4:
        return 0
    distances = np.diff(starts)
    period = int(np.median(distances))
    return period if period >= 2 and float(np.mean(distances == period)) >= _EVEN else 0
