"""Steps that are slow for a known while: what a job does after its start, an epoch's begin or an evaluation.

Steps above the limit in a row are kept aside until they end. Where they ended no later than such a stretch did before,
they are left out; else they are handed back, and count as any others do.
"""

from __future__ import annotations

from collections.abc import Sequence

Kept = tuple[int, float, float]
"""Number, time by work, and work of a step."""
_SHORT = 3
_LONGEST = 64


class Aside:
    """Keeps slow steps aside for as long as slow stretches are known to last."""

    def __init__(self) -> None:
        self._usual = 0
        self._kept: list[Kept] = []
        self._since_excuse = _LONGEST
        self._after_excuse = False
        self._tail = 0

    def learn(self, length: int) -> None:
        """A stretch of that many slow steps came to its end by itself, as one at the start of the job does."""
        if 2 <= length <= _LONGEST:
            self._usual = max(self._usual, length)

    @property
    def allowed(self) -> int:
        """How many slow steps in a row are no news."""
        return max(_SHORT, self._usual + self._usual // 4 + 2 if self._usual else 0)

    def excused(self) -> None:
        """A checkpoint, an evaluation or a capture ended: what follows may warm up again, as a start does."""
        self._since_excuse = 0

    def add(self, step: Kept, *, slow: bool, start: int) -> Sequence[Kept]:
        """The steps that count now, oldest first; `start` is how long a warm-up may last where one is due."""
        excuse, self._since_excuse = self._since_excuse <= _SHORT, self._since_excuse + 1
        if slow:
            if not self._kept:
                self._after_excuse = excuse
            self._kept.append(step)
            allowed = max(self.allowed, start) if self._after_excuse else self.allowed
            return self._hand_back() if len(self._kept) > allowed else ()
        if len(self._kept) > _SHORT:
            self.learn(len(self._kept))
            # A warm-up dies away: the steps after it are of it too.
            self._tail = min(len(self._kept), 20)
            self._kept = []
        if self._tail:
            self._tail -= 1
            return ()
        return (*self._hand_back(), step)

    def _hand_back(self) -> list[Kept]:
        found, self._kept = self._kept, []
        return found
