"""Decides after how long without a step a rank counts as stuck: one rule, with two sets of limits."""

from __future__ import annotations

from dataclasses import dataclass

LATEST = 200
"""Number of a rank's latest steps that define how long its steps take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StallLimits:
    """The limits for a rank that ends no step: `times_usual` usual steps, twice the longest recent step, and
    `least_ns`."""

    times_usual: int
    least_ns: int
    times_longest: int = 2

    def over(self, age_ns: int | None, usual_ns: int | None, longest_ns: int | None = None) -> bool:
        """Whether the last step ended too long ago (ns). Unknown step lengths count as 0; with an unknown age the
        answer is no."""
        limits = (self.least_ns, self.times_usual * (usual_ns or 0), self.times_longest * (longest_ns or 0))
        return age_ns is not None and age_ns >= max(limits)


ALARM = StallLimits(times_usual=20, least_ns=10_000_000_000)
"""The limits for Hermes' own alarm that a job makes no progress."""
ASKED = StallLimits(times_usual=5, least_ns=1_000_000_000)
"""The limits once you ask for stacks: you have a reason, and a rank is named only if the others wait for it."""
