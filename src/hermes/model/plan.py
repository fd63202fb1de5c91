"""The plan: ranked actions, their combined gain, the noise floor, and what to record next."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hermes.base.message import Message, Text
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Key, Loss
from hermes.model.leaf import Leaf, Risk

MEDIAN = 1.2533
"""The standard error of the median over that of the mean, for a normal distribution: the root of pi / 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """The noise floor in nanoseconds per step: the larger of `spread_ns` and `least_ns`; None is "not measured".

    `spread_ns` is the robust standard error of the median of a rank's steps, the median over ranks. A cost is that of
    the typical or the mean step, and chance moves both less than single steps. The cause itself may make single steps
    uneven. If only a single step was captured, `spread_ns` is the standard deviation of the ranks (`of` says which).
    `least_ns` is the share of the step that always counts as noise. `unexplained_ns` is the time that the critical path
    cannot account for: it is no noise, but a replay predicts nothing of it. `single_ns` is the standard deviation of
    `steps` single steps from which `spread_ns` was computed.
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
        """The floor for one loss: the noise without the part of the spread that the loss itself may have caused."""
        if self.single_ns is None or not self.steps:
            return self.ns
        left = max(self.single_ns**2 - cost_ns**2, 0)
        spread = MEDIAN * math.sqrt(left / self.steps)
        return min(self.ns, max(round(spread), self.least_ns))

    @property
    def share(self) -> float:
        """The noise floor as a share of the step."""
        return self.ns / self.step_ns if self.step_ns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprofiled:
    """The mean step of one rank without the profiler and with the profiler, in nanoseconds.

    `steps` were counted before the capture. `each_ns` is the profiler's cost for one of the `calls` that it recorded in
    a step; a frame counts as part of a call. `spread_ns` is the median absolute deviation of the lengths of the steps
    before the capture; None if not known.
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
        """The spread of captured steps in nanoseconds: that of the steps before, reduced if captured steps are shorter.

        No profiler makes a step shorter: if the steps before took longer, something delayed them and increased their
        spread.
        """
        return None if self.spread_ns is None else round(self.spread_ns * min(1.0, self.captured_ns / self.step_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A capture to record that would answer a question.

    `ranks` is empty if any rank will do, and never names a rank that was captured.

    `command` records the capture from a job that Hermes watches; `profiler` is the same for the job's own profiler.
    `codes` are the findings that wait for the capture.
    """

    why: Message
    ranks: tuple[int, ...]
    level: str
    options: tuple[str, ...]
    command: str
    profiler: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One action of the plan: the findings that it answers, its gain, its change, its check, and its source.

    `answers` are the keys of the findings that the action cures. `gain` is that of the action alone. `beyond_ns` is
    what the action adds to the actions before it in a replay of all actions, None for the first action and if these
    were not replayed. `case` is the id of the known cause that fits; `before` and `after` are the case's change; all
    are empty if no case fits. `doubts` lists what the case's symptoms leave open. `others` are more cases that may be
    the cause. `lines` are the lines of the user's code from which the loss comes.
    """

    title: Text
    answers: tuple[Key, ...]
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

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings that the action cures."""
        return tuple(dict.fromkeys(code for code, _ in self.answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """The gain of the first `actions` actions replayed together, in nanoseconds per step, and over the captured steps.

    The gain is a range, as for each action, and never more than the sum of the single gains. `share` is its lower end
    as a share of the step, which takes `step_ns`.
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

    `unprofiled` is the step without its profiler, to which gains then refer. `unrecorded` is the part of the steps in
    which the host recorded nothing, if that part is large: no finding covers that part.
    """

    floor: NoiseFloor
    actions: tuple[Advice, ...]
    combined: Combined | None
    captures: tuple[Capture, ...]
    minor: tuple[Loss, ...]
    unprofiled: Unprofiled | None = None
    unrecorded: float = 0.0


EMPTY = Plan(
    floor=NoiseFloor(ns=0, step_ns=0, spread_ns=None, of="not measured", unexplained_ns=None, least_ns=0),
    actions=(),
    combined=None,
    captures=(),
    minor=(),
)
"""The plan of a report without ranked actions."""
