"""Finds slowness by turns: every fourth step, or one in twenty at random, takes a multiple; most steps stay as before.

The median does not move, so the counts of slow steps are compared: in the last 100, 200 and 400 steps and in the
reference. Slow steps in a row count once, because a burst is no evidence of a higher rate. Where every Nth step was
slow from the start, there is no reference: then the even distance is the evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hermes.jobs.detect.ranksum import Floats, mean, middle

WINDOWS = (100, 200, 400)
_HEIGHTS = (1.0, 3.0, 9.0)
"""Limits for slow steps, as multiples of the least limit: single slow steps may be usual, but steps above a higher
limit may not be."""
_EVIDENCE = 16.0
_EFFECT = 0.06
_MOST = 0.6
_EVEN = 0.75
_LATEST, _LEAST_SLOW, _ALL_EVEN, _SPREAD, _STEADY_EFFECT = 1000, 6, 0.85, 0.05, 0.05
_LEAST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingSlowSteps:
    """A pattern of slow steps in the last `length` steps: one every `period` steps, or 0 where they come unevenly.

    `usual` is the mean time before. If every Nth step was slow all the time, `usual` is the mean of the other steps,
    and steps of `limit` and more are slow.
    """

    length: int
    period: int
    score: float
    usual: float
    limit: float = math.inf


def slow_limit(reference: Floats) -> float:
    """The least time of a slow step in a series: far above the reference's own scatter."""
    usual = middle(reference)
    deviation = 1.4826 * middle(np.abs(reference - usual))
    return max(1.25 * usual, usual + 5 * deviation, 1.1 * float(np.quantile(reference, 0.98)))


def by_turns(values: Floats, most_reference: int) -> AlternatingSlowSteps | None:
    """The pattern if slow steps come more often in the latest of `values` than in the first, and cost 6 % of all time
    more."""
    for window in WINDOWS:
        size = min(most_reference, len(values) - window)
        if size < max(_LEAST, window // 2):
            return None
        reference, last = values[:size], values[len(values) - window :]
        if float(last.mean()) >= (1 + _EFFECT) * float(reference.mean()) and (found := _more(reference, last)):
            return found
    return None


def _more(reference: Floats, last: Floats) -> AlternatingSlowSteps | None:
    limit, usual = slow_limit(reference), middle(reference)
    # Where most steps are slow, the level has changed instead.
    if float((last > limit).mean()) > _MOST:
        return None
    for height in _HEIGHTS:
        slow = _starts(last > limit * height)
        score = evidence(len(slow), len(last), len(_starts(reference > limit * height)), len(reference))
        cost = float((last[last > limit * height] - usual).sum()) / (usual * len(last))
        if score >= _EVIDENCE and cost >= _EFFECT:
            return AlternatingSlowSteps(
                length=len(last) - int(slow[0]), period=_period(slow), score=score, usual=mean(reference)
            )  # fmt: skip
    return None


def by_period(values: Floats, numbers: npt.NDArray[np.int64]) -> AlternatingSlowSteps | None:
    """The pattern if every Nth of the latest `values` is slow and costs 5 % of all time; `numbers` are their step
    numbers.

    At least six slow steps, or runs of them, are needed, and all but one in seven of their distances must be even.
    """
    values, numbers = values[-_LATEST:], numbers[-_LATEST:]
    usual = middle(values)
    limit = max(1.25 * usual, usual + 6 * 1.4826 * middle(np.abs(values - usual)))
    starts = _starts(values >= limit)
    if len(starts) < _LEAST_SLOW:
        return None
    distances = np.diff(numbers[starts])
    period = int(np.median(distances))
    even = np.abs(distances - period) <= max(1.0 if period > 10 else 0.0, _SPREAD * period)
    since = values[int(starts[0]) :]
    fast = since[since < limit]
    cost = 1 - len(since) * mean(fast) / float(since.sum())
    if period < 2 or float(np.mean(even)) < _ALL_EVEN or cost < _STEADY_EFFECT:
        return None
    return AlternatingSlowSteps(
        length=len(since), period=period, score=float(len(starts)), usual=mean(fast), limit=limit
    )


def evidence(count: int, window: int, before: int, size: int) -> float:
    """Minus the logarithm of the chance that `count` of `count + before` events fall into `window` of all steps.

    The value is Chernoff's bound for a binomial; 0 where the window holds no more events than expected.
    """
    total, share = count + before, window / (window + size)
    if not total or count <= share * total:
        return 0.0
    here = count / total
    rest = (1 - here) * math.log((1 - here) / (1 - share)) if here < 1 else 0.0
    return total * (here * math.log(here / share) + rest)


def _starts(slow: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The begin of each run of slow steps."""
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.flatnonzero(slow & ~np.append(False, slow[:-1]))
    return found


def _period(starts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    if len(starts) < 4:
        return 0
    distances = np.diff(starts)
    period = int(np.median(distances))
    return period if period >= 2 and float(np.mean(distances == period)) >= _EVEN else 0
