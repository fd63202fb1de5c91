"""What a rule says: a finding with its evidence, cost, gain as a range, confidence and cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.analyze.measures import StepSplit

Layer = Literal["io", "cpu", "compute", "communication", "memory", "parallelism", "environment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A stretch of time of one rank, on its own clock. `whole` is that of a whole step, else of one event in it."""

    rank: int
    start_ns: int
    dur_ns: int
    whole: bool = False


def step_moment(split: StepSplit) -> Moment:
    """The window of a step."""
    return Moment(rank=split.rank, start_ns=split.start_ns, dur_ns=split.window_ns, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind a finding, against its threshold, and where it stands in the input.

    `at` is where to look, if it is one moment.
    """

    what: str
    value: float
    unit: str
    threshold: float | None
    where: str
    at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do, how to see that it helped, what it risks, and where the advice comes from."""

    title: str
    do: str
    verify: str
    risk: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What removing the cause would give, in nanoseconds per step, as a range; `method` says how it was reckoned.

    `replayed`: `low_ns` is what a replay of the step gave; without it there is only the bound `high_ns`.
    """

    low_ns: int
    high_ns: int
    method: str
    replayed: bool = False

    @property
    def expected_ns(self) -> int:
        """The replay, or the middle of the range from nothing to the bound."""
        return self.low_ns if self.replayed else (self.low_ns + self.high_ns) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of lost time. `cost_ns` is per step (median over steps, worst rank), `share` of the step window.

    `blames` names ranks (also ranks that were not collected), links or source lines. `replay` holds the changes that
    stand for its cure where steps are replayed, such as `rank:5=median`; without any, the gain stays a bound. `within`
    is the code of a broader finding of which this is a part: the part says more, and comes first. `explained_by` are
    the codes of the parts of this one that were found: `gain` is then what is left beyond them. `at` is the moment that
    shows it. `endangers`: it ends the job in time, whatever it costs a step. `calls` is how many recorded calls a step
    lie in `cost_ns`, which a profiler lengthens; None: like the rest of the step; 0: it was not counted in the capture.
    `fresh` is the part of the large tensors of a step, by bytes, that what costs makes: so much of the time in which
    the system hands out memory goes with it; None: it is not known, and all share that alike. `awaits`: what costs is
    waiting for another rank, which a profiler lengthens by what that one calls.
    """

    code: str
    layer: Layer
    cause: str
    title: str
    ranks: tuple[int, ...]
    blames: tuple[str, ...]
    cost_ns: int
    share: float
    gain: Gain
    confidence: float
    evidence: tuple[Evidence, ...]
    actions: tuple[Action, ...]
    replay: tuple[str, ...] = ()
    within: str = ""
    explained_by: tuple[str, ...] = ()
    at: Moment | None = None
    endangers: bool = False
    calls: float | None = None
    fresh: float | None = None
    awaits: bool = False
