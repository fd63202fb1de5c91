"""A finding of Hermes: its ranks and steps, evidence, cost, gain as a range, blame and actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Text
from hermes.model.advice_fit import ANY, Fit
from hermes.model.fault import Fault
from hermes.model.leaf import Leaf, Risk
from hermes.model.step_measures import StepSplit

Layer = Literal["io", "cpu", "compute", "communication", "memory", "parallelism", "environment"]


State = Literal["preview", "stable"]
"""The state of a rule: findings of `stable` rules make the verdict and the plan; `preview` findings stand apart."""


BlameKind = Literal[
    "rank", "stage", "link", "operation", "operator", "shape", "call", "line", "setting", "allocator", "copy"
]


class Blame(str):
    """The rank, link, operator or setting to blame: the text in reports, its kind, and its rank."""

    kind: BlameKind
    rank: int | None

    def __new__(cls, text: str, kind: BlameKind = "call", rank: int | None = None) -> Blame:
        """A blame is a string: the text that reports show."""
        made = str.__new__(cls, text)
        made.kind, made.rank = kind, rank
        return made

    @classmethod
    def of_rank(cls, rank: int) -> Blame:
        """The blame for a whole rank, whether the rank was captured or not."""
        return cls(f"rank {rank}", "rank", rank)

    @property
    def is_rank(self) -> bool:
        """Whether the blame is for a whole rank, not for something on the rank."""
        return self.kind == "rank"


class SourceLine(str):
    """A line of the user's code as `path:line`, and the span of characters meant on the line.

    `span` is the first column, the last line and the column behind the end; all count from 1.
    """

    path: str
    line: int
    span: tuple[int, int, int]

    def __new__(cls, path: str, line: int, span: tuple[int, int, int]) -> SourceLine:
        """A line is a string: the text that reports show."""
        made = str.__new__(cls, f"{path}:{line}")
        made.path, made.line, made.span = path, line, span
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingMoment:
    """A stretch of time of one rank, on the rank's own clock. `whole`: a whole step, else one event in a step."""

    rank: int
    start_ns: int
    dur_ns: int
    whole: bool = False


def step_moment(split: StepSplit) -> FindingMoment:
    """The moment that covers the window of a step."""
    return FindingMoment(rank=split.rank, start_ns=split.start_ns, dur_ns=split.window_ns, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number behind a finding with its threshold and its place in the input.

    `at` is the moment to look at in the timeline, if the number belongs to one moment.
    """

    what: Text
    value: float
    unit: str
    threshold: float | None
    where: str
    at: FindingMoment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action for the user, with its check, its risk, the source of the advice, and the jobs that the advice fits.

    `whole`: the text is complete, and no change of a known case is added. `cases`: the ids of the known cases whose
    change the action is.
    """

    title: Text
    do: Text
    verify: Text
    risk: Text
    source: str
    whole: bool = False
    fit: Fit = ANY
    cases: tuple[str, ...] = ()


Basis = Literal["replayed", "bound", "measured"]
"""The basis of a gain: a replay of the steps, an upper bound, or a measurement after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The gain of removing the cause, in nanoseconds per step, as a range; `method` says how the gain was computed.

    For a replay `low_ns` is the replay's result; for a bound only `high_ns` is known. `before`: the gain was computed
    from steps before the capture, which no profiler lengthened. `middle_ns` is the replay's result, if the range around
    it comes from past cures of this kind.
    """

    low_ns: int
    high_ns: int
    method: Text
    basis: Basis = "bound"
    before: bool = False
    middle_ns: int | None = None

    @property
    def replayed(self) -> bool:
        """Whether the gain comes from a replay of the steps."""
        return self.basis == "replayed"

    @property
    def expected_ns(self) -> int:
        """The expected gain in nanoseconds per step: the replay's result, or the middle between 0 and the bound."""
        if self.middle_ns is not None:
            return self.middle_ns
        return self.low_ns if self.replayed else (self.low_ns + self.high_ns) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that any part of Hermes found. `about` is the leaf that loses the time, or the risk.

    `ranks`, `steps` and `lines` say where the problem is: the affected ranks, the steps that show the problem (empty:
    all captured steps), and lines of the user's code, the most expensive first. `blames` names the ranks (also ranks
    without a capture), links, operators or settings to blame. `cost_ns` is per step; None if no time is lost. `doubts`
    lists what the finding leaves open.
    """

    code: str = ""
    about: Leaf | Risk = Risk.NOTE
    message: Text
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    lines: tuple[str, ...] = ()
    blames: tuple[Blame, ...] = ()
    cost_ns: int | None = None
    gain: Gain | None = None
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[Action, ...] = ()
    doubts: tuple[Text, ...] = ()
    state: State = "stable"


Key = tuple[str, Fault | None]
"""The code and the fault of a finding: one rule may find several faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Finding):
    """A finding of time that a step loses.

    `cost_ns` is the median over steps, of the worst rank; `share` is the part of the step.

    `code`, `layer`, `state`, `about`, `cases` and, if not given, `fault` come from the rule. `replay` holds the changes
    that stand for the cure where steps are replayed, such as `rank:5=median`; without changes the gain stays a bound.
    `apart`: a broader finding, of whose fault this finding's fault is a part, does not include its time. `causes` are
    the keys of this finding's parts that were found; `gain` is then what is left beyond these parts. `cases` are the
    ids of known causes that fit. `moments` are where the loss shows, at most one for each rank, best first.
    `endangers`: the fault ends the job in time, whatever it costs a step. `by_chance`: the usual variation of steps may
    explain the loss, so it is told as noise whatever it costs. `assumed`: the link between cause and cost is assumed,
    not measured; such a finding explains no other finding. `claim` is the share of the steps that can be won in the
    leaf that the finding explains; findings are ordered by `claim`. `room_ns` is the time of the finding's leaves in a
    step, an upper bound for any gain; None if the leaves were not measured.
    """

    cost_ns: int
    gain: Gain
    share: float
    layer: Layer = "compute"
    fault: Fault | None = None
    replay: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    apart: bool = False
    causes: tuple[Key, ...] = ()
    moments: tuple[FindingMoment, ...] = ()
    endangers: bool = False
    by_chance: bool = False
    assumed: bool = False
    claim: float = 0.0
    room_ns: int | None = None

    @property
    def explains(self) -> frozenset[Leaf]:
        """The leaves of the time tree that the finding's time goes to; a risk has none."""
        if isinstance(self.about, Risk):
            return frozenset()
        return self.fault.explains if self.fault else frozenset({self.about})

    @property
    def awaited(self) -> frozenset[int]:
        """The ranks that a finding about waiting blames."""
        if (self.fault.about if self.fault else self.about) is not Leaf.WAIT:
            return frozenset()
        return frozenset(blame.rank for blame in self.blames if blame.is_rank and blame.rank is not None)

    @property
    def key(self) -> Key:
        """The code and the fault, which tell this finding from findings of other faults."""
        return self.code, self.fault

    @property
    def explained_by(self) -> tuple[str, ...]:
        """The codes of this finding's parts that were found."""
        return tuple(dict.fromkeys(code for code, _ in self.causes))

    @property
    def at(self) -> FindingMoment | None:
        """The moment that shows the finding best; None if it has no moment."""
        return self.moments[0] if self.moments else None
