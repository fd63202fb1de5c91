"""The step without its profiler: what a profiler adds to calls makes causes that have few of them look small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.analyze.host_measures import Before
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Finding, Gain
from hermes.diagnose.rule import Threshold

MOST_NS = Threshold(
    value=3_000, unit="ns a recorded call: more is no profiler's doing", source="docs/evidence/profiler-cost.md"
)
_MOSTLY = 0.5
"""A wait for another rank is most of a captured step from this part of it on: `docs/evidence/profiler-cost.md`."""
_LEFT = 0.1
"""At least this part of a cost is its own, whatever its calls would account for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A step of one rank without the profiler and with it, both as means, in nanoseconds.

    `steps` were counted before the capture. `each_ns` is what the profiler added to each of the `calls` that it
    recorded a step, frames counted in part, `alike` how long the step is beside a captured one less that: 1 unless a
    profiler cannot have made the whole difference; then all that was captured shrinks, or grows, alike. `spread_ns` is
    the median absolute deviation of the steps before; None where it was not told. `fresh_ns` is what page faults took
    in a step before, `captured_fresh_ns` in a captured one, where both are told: a profiler changes how often memory is
    new, and what is won from operators wins their share of it: by the bytes of large tensors that they make, else like
    all of the step.
    """

    rank: int
    steps: int
    step_ns: int
    captured_ns: int
    calls: float
    each_ns: float
    alike: float = 1.0
    spread_ns: int | None = None
    fresh_ns: int = 0
    captured_fresh_ns: int = 0

    def of(self, finding: Finding) -> Gain:
        """The gain of a finding in such a step: less what the profiler added to the calls that it holds."""
        gain, left = finding.gain, self._left(finding)
        if left == 1:
            return gain
        return replace(
            gain,
            low_ns=min(round(gain.low_ns * left), self._most(finding)),
            high_ns=min(round(gain.high_ns * left), self._most(finding)),
            method=f"{gain.method}; less what the profiler added",
        )

    def _most(self, finding: Finding) -> int:
        """What a step can win: all of it, or, where most of it waits for another rank, all but its own work.

        How much the profiler lengthens the other rank no call of this one tells: its own work in the capture, less the
        most that a profiler adds to its calls, was there before, and no less of it than of the whole step.
        """
        if not finding.awaits or finding.calls is None or finding.cost_ns < _MOSTLY * self.captured_ns:
            return self.step_ns
        own = max(0, self.captured_ns - finding.cost_ns)
        less = own - self.each_ns * (self.calls - finding.calls)
        return max(0, self.step_ns - round(max(less, own * self.step_ns / self.captured_ns)))

    def _left(self, finding: Finding) -> float:
        """The part of a finding's cost that is there without the profiler."""
        if finding.calls == 0:
            return 1.0
        if finding.calls is None or not finding.cost_ns:
            return self.step_ns / self.captured_ns
        added = self.each_ns * finding.calls
        if finding.fresh is not None:
            # What makes large tensors is what the system hands memory out for.
            own = finding.cost_ns - added - finding.fresh * self.captured_fresh_ns
            return (max(_LEFT * finding.cost_ns, own) * self.alike + finding.fresh * self.fresh_ns) / finding.cost_ns
        old = 1 - self.captured_fresh_ns / self.captured_ns
        new = self.step_ns / (self.step_ns - self.fresh_ns)
        return max(_LEFT, old - added / finding.cost_ns) * self.alike * new


def bare(before: Sequence[Before], splits: Sequence[StepSplit]) -> Bare | None:
    """The step of the rank whose captured steps are longest, of those that say what they were like before."""
    found = [one for row in before if (one := _of_rank(row, [split for split in splits if split.rank == row.rank]))]
    return max(found, key=lambda one: (one.captured_ns, -one.rank), default=None)


def _of_rank(row: Before, splits: Sequence[StepSplit]) -> Bare | None:
    if not splits:
        return None
    # As rules of the host count: the window of a device begins only with its first task.
    captured = sum(split.whole_ns for split in splits) // len(splits)
    if not captured:
        return None
    fresh, captured_fresh = _fresh(row, captured)
    own, step = captured - captured_fresh, row.step_ns - fresh
    added = max(0.0, min(own - step, MOST_NS.value * row.calls))
    return Bare(
        rank=row.rank,
        steps=row.steps,
        step_ns=row.step_ns,
        captured_ns=captured,
        calls=row.calls,
        each_ns=added / max(1, row.calls),
        alike=step / (own - added) if own > added else 1.0,
        spread_ns=row.spread_ns,
        fresh_ns=fresh,
        captured_fresh_ns=captured_fresh,
    )


def _fresh(row: Before, captured_ns: int) -> tuple[int, int]:
    """What page faults took in a step before and in a captured one; of neither where one is not told."""
    if row.captured_faults is None or row.minor_faults is None or row.fault_ns is None:
        return 0, 0
    most = 1 - _LEFT
    return (
        min(row.minor_faults * row.fault_ns, round(row.step_ns * most)),
        min(row.captured_faults * row.fault_ns, round(captured_ns * most)),
    )
