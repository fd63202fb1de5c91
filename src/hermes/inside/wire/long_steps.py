"""Steps that take longer than the others at an even distance: evaluations, checkpoints, starts of epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 3
"""Long steps at an even distance: two have one distance, which is even by itself."""
CHANCE = 0.05
"""A row of steps counts where fewer than so many rows this long would be expected by chance: the usual level."""
_MOST = 256
"""So many steps are looked at, the last: some ten milliseconds of work."""
_MOST_EXCESS = 300
"""Ranks by which a row may be behind the best one; those beyond it count as chance."""


@dataclass(frozen=True)
class LongSteps:
    """Each `period`th step, the last of them number `last`, takes longer than `usual_ns`, the median of the others.

    `count` of `steps` do; `extra_ns` is by how much each, the median, and `share` what that is of all time.
    """

    period: int
    last: int
    count: int
    steps: int
    usual_ns: int
    extra_ns: int
    share: float

    def told(self) -> dict[str, int]:
        """What a capture says of them: whole numbers under names that begin with `long_`."""
        return {
            "long_period": self.period, "long_last": self.last, "long_count": self.count, "long_of": self.steps,
            "long_usual_ns": self.usual_ns, "long_extra_ns": self.extra_ns,
            "long_share_ppm": round(1e6 * self.share),
        }  # fmt: skip

    def next_after(self, step: int) -> int:
        """The first long step from `step` on."""
        return self.last + max(0, -(-(step - self.last) // self.period)) * self.period

    def holds(self, step: int) -> bool:
        """Whether a step should be one of them."""
        return (step - self.last) % self.period == 0


def long_steps(numbers: Sequence[int], walls: Sequence[int]) -> LongSteps | None:
    """The row of long steps that takes most; None where none is beyond chance.

    `numbers` are those of steps, rising, `walls` their lengths in nanoseconds. Rows are held against the other steps by
    the sum of their ranks (Wilcoxon), and chance is counted for all distances and beginnings that are tried.
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
    """How likely `many` of `count` have ranks that sum to at most the least possible and `excess`; 1 where that is far.

    Sets of ranks whose sum is beyond the least by n are the partitions of n into at most `many` parts.
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
    # The lower one of two: half of a row of twice as many steps are none.
    return sorted(values)[(len(values) - 1) // 2]
