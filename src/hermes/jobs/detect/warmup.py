"""Leaves out slow steps of a known length: after a job's start, an epoch's begin or an evaluation.

Consecutive steps above the limit are kept aside until they end. If they end no later than such a stretch ended before,
they are left out; otherwise they are returned, and count like other steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hermes.jobs.detect.ranksum import Floats

Kept = tuple[int, float, float]
"""Number, time by work, and work of a step."""
_SHORT = 3
_LONGEST = 64


def warm_up(first: Floats) -> int:
    """How many of a job's first steps were slow, until two in a row were not."""
    # Epochs may be so short that most of these steps are warm-up: the fast half shows the usual time.
    fastest = np.sort(first)[: len(first) // 2]
    usual = float(fastest[-len(fastest) // 3])
    limit = 1.25 * usual + 5 * 1.4826 * float(np.median(np.abs(fastest - np.median(fastest))))
    fast = np.flatnonzero(first <= limit)
    ends = fast[np.flatnonzero(np.diff(fast) == 1)] if len(fast) > 1 else fast
    return int(ends[0]) if len(ends) else len(first)


class SlowStretch:
    """A buffer that keeps slow steps aside for as long as slow stretches are known to last."""

    def __init__(self) -> None:
        self._usual = 0
        self._kept: list[Kept] = []
        self._since_excuse = _LONGEST
        self._after_excuse = False
        self._tail = 0

    def learn(self, length: int) -> None:
        """Learn that a stretch of `length` slow steps ended by itself, as a stretch at the job's start does."""
        if 2 <= length <= _LONGEST:
            self._usual = max(self._usual, length)

    @property
    def allowed(self) -> int:
        """How many slow steps in a row are expected and raise no alarm."""
        return max(_SHORT, self._usual + self._usual // 4 + 2 if self._usual else 0)

    def excused(self) -> None:
        """Note the end of a checkpoint, an evaluation or a capture: the next steps may warm up again, as after a
        start."""
        self._since_excuse = 0

    def add(self, step: Kept, *, slow: bool, start: int) -> Sequence[Kept]:
        """Take a step; returns the steps that count now, oldest first. `start` is how long a warm-up may last after an
        excuse."""
        excuse, self._since_excuse = self._since_excuse <= _SHORT, self._since_excuse + 1
        if slow:
            if not self._kept:
                self._after_excuse = excuse
            self._kept.append(step)
            allowed = max(self.allowed, start) if self._after_excuse else self.allowed
            return self._hand_back() if len(self._kept) > allowed else ()
        if len(self._kept) > _SHORT:
            self.learn(len(self._kept))
            # A warm-up fades: the steps right after it still belong to it.
            self._tail = min(len(self._kept), 20)
            self._kept = []
        if self._tail:
            self._tail -= 1
            return ()
        return (*self._hand_back(), step)

    def _hand_back(self) -> list[Kept]:
        found, self._kept = self._kept, []
        return found
