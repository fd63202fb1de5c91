"""What to do: ranked actions, what they give together, what to record next."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hermes.base.message import Text
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.leaf import Leaf, Risk

MEDIAN = 1.2533
"""Standard error of the median over that of the mean, of a normal distribution: the root of pi / 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Nanoseconds per step, the larger of spread and least; None is "not measured".

    `spread_ns` is the robust standard error of the median of a rank's steps, the median over ranks: a cost is one of
    the typical or the mean step, and chance moves those less than single steps, which the cause itself may make uneven.
    Of a single step it is the standard deviation of the ranks (`of` says which). `least_ns` is the share of the step
    that always counts as noise. `unexplained_ns` is what the critical path cannot account for: not noise, but a replay
    predicts nothing of it. `single_ns` is the standard deviation of single steps that `spread_ns` was made of, and
    `steps` how many of them.
    """

    ns: int
    step_ns: int
    spread_ns: int | None
    of: str
    unexplained_ns: int | None
    least_ns: int
    single_ns: int | None = None
    steps: int = 0

    def beside(self, cost_ns: int) -> int:
        """The floor for a loss: that of the spread which is left where the loss itself made as much of it as it can."""
        if self.single_ns is None or not self.steps:
            return self.ns
        left = max(self.single_ns**2 - cost_ns**2, 0)
        spread = MEDIAN * math.sqrt(left / self.steps)
        return min(self.ns, max(round(spread), self.least_ns))

    @property
    def share(self) -> float:
        """Of the step."""
        return self.ns / self.step_ns if self.step_ns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprofiled:
    """A step of one rank without the profiler and with it, both as means, in nanoseconds.

    `steps` were counted before the capture. `each_ns` is what the profiler added to each of the `calls` that it
    recorded a step, frames counted in part. `spread_ns` is the median absolute deviation of the
    lengths of the steps before; None where it was not told.
    """

    rank: int
    steps: int
    step_ns: int
    captured_ns: int
    calls: float
    each_ns: float
    spread_ns: int | None = None

    @property
    def captured_spread_ns(self) -> int | None:
        """How captured steps spread: as those before do, and as much less as they are shorter.

        No profiler makes a step shorter: where those before took longer, they were held up, and spread the more.
        """
        return None if self.spread_ns is None else round(self.spread_ns * min(1.0, self.captured_ns / self.step_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One capture that would answer a question; `ranks` is empty where any will do, and never one that was collected.

    `command` records it from a job that Hermes watches; `profiler` is the same for the job's own profiler. `codes` are
    the findings that wait for it.
    """

    why: str
    ranks: tuple[int, ...]
    level: str
    options: tuple[str, ...]
    command: str
    profiler: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One action: what it answers, what it gives, what to change, how to see that it helped, where it is from.

    `gain` is that of the action alone; `beyond_ns` what it adds to those before it in a replay of all of them, None
    where they were not replayed. `case` is the id of the known cause that fits, `before` and `after` are its change;
    empty without one. `doubts` is what the case's symptoms leave open. `others` are more cases that may be the cause.
    `lines` are lines of the user's code from which the loss comes.
    """

    title: Text
    codes: tuple[str, ...]
    layer: str
    fault: Fault | None
    about: Leaf | Risk
    ranks: tuple[int, ...]
    blames: tuple[str, ...]
    gain: Gain
    beyond_ns: int | None
    share_low: float
    share_high: float
    confidence: float
    effort: str
    risk: Text
    do: Text
    before: str
    after: str
    versions: str
    verify: Text
    source: str
    case: str
    cure: str
    confirm: str
    doubts: tuple[str, ...]
    others: tuple[str, ...]
    specs: tuple[str, ...]
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The first `actions` actions replayed together, in nanoseconds per step; and over the steps that were seen.

    A range, as that of each of them, and never more than they give one by one; `share` is the least of it in the step,
    which takes `step_ns`.
    """

    actions: int
    low_ns: int
    high_ns: int
    step_ns: int
    share: float
    steps: int
    over_steps_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Ranked actions, what the first of them give together, what to collect next, and what was left out as noise.

    `unprofiled` is the step without its profiler, which gains are then meant for. `unrecorded_ns` is time of the step
    in Python that was not recorded, where that is much: no finding can speak of it.
    """

    floor: NoiseFloor
    actions: tuple[Advice, ...]
    combined: Combined | None
    captures: tuple[Capture, ...]
    minor: tuple[Loss, ...]
    unprofiled: Unprofiled | None = None
    unrecorded_ns: int = 0


EMPTY = Plan(
    floor=NoiseFloor(ns=0, step_ns=0, spread_ns=None, of="not measured", unexplained_ns=None, least_ns=0),
    actions=(),
    combined=None,
    captures=(),
    minor=(),
)
"""The plan of a report in which nothing was ranked."""
