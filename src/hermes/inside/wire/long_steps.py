"""Finds steps that take longer than the others at an even distance: evaluations, checkpoints, starts of epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 3
"""Fewest long steps at an even distance: two steps have one distance, which is even by itself."""
CHANCE = 0.05
"""A row of long steps counts if fewer than 0.05 such rows would be expected by chance: the usual level."""
_MOST = 256
"""Largest number of steps that are read, the last ones: some ten milliseconds of work."""
_MOST_EXCESS = 300
"""Ranks by which a row may be behind the best row; rows further behind count as chance."""


@dataclass(frozen=True)
class LongSteps:
    """A pattern of long steps: each `period`th step, the last one number `last`, takes longer than the other steps.

    `usual_ns` is the median of the other steps. `count` of `steps` are long; `extra_ns` is the median extra time of a
    long step, and `share` the extra time's share of all time.
    """

    period: int
    last: int
    count: int
    steps: int
    usual_ns: int
    extra_ns: int
    share: float

    def told(self) -> dict[str, int]:
        """The long steps as a capture stores them: whole numbers under names that begin with `long_`."""
        return {
            "long_period": self.period, "long_last": self.last, "long_count": self.count, "long_of": self.steps,
            "long_usual_ns": self.usual_ns, "long_extra_ns": self.extra_ns,
            "long_share_ppm": round(1e6 * self.share),
        }  # fmt: skip

    def next_after(self, step: int) -> int:
        """The first long step from `step` on."""
        return self.last + max(0, -(-(step - self.last) // self.period)) * self.period

    def holds(self, step: int) -> bool:
        """Whether `step` should be a long step."""
        return (step - self.last) % self.period == 0


def long_steps(numbers: Sequence[int], walls: Sequence[int]) -> LongSteps | None:
    """The row of long steps with the most extra time; None where no row is beyond chance.

    `numbers` are the rising numbers of steps, `walls` their lengths in nanoseconds. A row is compared with the other
    steps by the sum of ranks (Wilcoxon), and chance is counted for all distances and beginnings that are tried.
    """
    numbers, walls = numbers[-_MOST:], walls[-_MOST:]
    count = len(walls)
    order = {at: place for place, at in enumerate(sorted(range(count), key=lambda at: -walls[at]))}
    longest = count // FEWEST
    tried = longest * (longest + 1) // 2 - 1
    found = []
    for period in range(2, longest + 1):
        rows: list[list[int]] = [[] for _ in range(period)]
        for at, number in enumerate(numbers):
            rows[number % period].append(at)
        for row in rows:
            excess = sum(order[at] for at in row) - len(row) * (len(row) - 1) // 2
            if len(row) >= FEWEST and tried * _chance(count, len(row), excess) < CHANCE:
                found.append(_told(numbers, walls, period, row))
    return max(found, key=lambda one: (one.share, -one.period), default=None)


def _told(numbers: Sequence[int], walls: Sequence[int], period: int, row: Sequence[int]) -> LongSteps:
    inside = set(row)
    usual = _middle([wall for at, wall in enumerate(walls) if at not in inside])
    extra = max(0, _middle([walls[at] for at in row]) - usual)
    return LongSteps(
        period=period, last=numbers[row[-1]], count=len(row), steps=len(walls), usual_ns=usual, extra_ns=extra,
        share=extra * len(row) / max(1, sum(walls)),
    )  # fmt: skip


def _chance(count: int, many: int, excess: int) -> float:
    """The probability that `many` of `count` have ranks that sum to at most the least possible plus `excess`; 1 far
    from it.

    Sets of ranks whose sum exceeds the least sum by n are the partitions of n into at most `many` parts.
    """
    middle, deviation = many * (count - many) / 2, math.sqrt(many * (count - many) * (count + 1) / 12)
    if excess > _MOST_EXCESS or excess > middle - 2 * deviation:
        return 1.0
    ways = [1, *[0] * excess]
    for part in range(1, many + 1):
        for total in range(part, excess + 1):
            ways[total] += ways[total - part]
    return sum(ways) / math.comb(count, many)


def _middle(values: Sequence[int]) -> int:
    # The lower of two middle values: half of the steps in a row with twice as many steps are not long.
    return sorted(values)[(len(values) - 1) // 2]
