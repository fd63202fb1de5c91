"""What every wing says: a finding with its place, evidence, cost, gain as a range, confidence and cure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Text
from hermes.model.fault import Fault
from hermes.model.fit import ANY, Fit
from hermes.model.leaf import Leaf, Risk
from hermes.model.measures import StepSplit

Layer = Literal["io", "cpu", "compute", "communication", "memory", "parallelism", "environment"]


State = Literal["preview", "stable"]
"""What a rule has earned: `stable` ones make the verdict and the plan, `preview` ones stand apart."""


BlameKind = Literal[
    "rank", "stage", "link", "operation", "operator", "shape", "call", "line", "setting", "allocator", "copy"
]


class Blame(str):
    """Who or what is to blame: the text that reports show, what it names, and the rank that it is or lies on."""

    kind: BlameKind
    rank: int | None

    def __new__(cls, text: str, kind: BlameKind = "call", rank: int | None = None) -> Blame:
        """A blame is the text that reports show."""
        made = str.__new__(cls, text)
        made.kind, made.rank = kind, rank
        return made

    @classmethod
    def of_rank(cls, rank: int) -> Blame:
        """A whole rank, whether it was collected or not."""
        return cls(f"rank {rank}", "rank", rank)

    @property
    def is_rank(self) -> bool:
        """Whether it is a rank as such, and nothing on it."""
        return self.kind == "rank"


class Line(str):
    """A line of the user's code as `path:line`, and the characters of it that are meant.

    `span` are the first column, the last line and the column behind the end; all count from 1.
    """

    path: str
    line: int
    span: tuple[int, int, int]

    def __new__(cls, path: str, line: int, span: tuple[int, int, int]) -> Line:
        """A line is the text that reports show."""
        made = str.__new__(cls, f"{path}:{line}")
        made.path, made.line, made.span = path, line, span
        return made


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

    what: Text
    value: float
    unit: str
    threshold: float | None
    where: str
    at: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to do, how to see that it helped, what it risks, where the advice comes from, and whom it fits.

    `whole`: it says all of the change, so that none of a known case is put beside it. `cases`: the known cases whose
    change it is, by their ids.
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
"""What a gain rests on: a replay of the steps, the most that can be won, or what was measured after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What removing the cause would give, in nanoseconds per step, as a range; `method` says how it was reckoned.

    Of a replay `low_ns` is what it gave; of a bound only `high_ns` is known. `before`: reckoned from steps before the
    capture, which no profiler lengthened. `middle_ns` is the replay itself, where the range around it is that of what
    cures of its kind gave.
    """

    low_ns: int
    high_ns: int
    method: Text
    basis: Basis = "bound"
    before: bool = False
    middle_ns: int | None = None

    @property
    def replayed(self) -> bool:
        """Whether the steps were replayed."""
        return self.basis == "replayed"

    @property
    def expected_ns(self) -> int:
        """The replay, or the middle of the range from nothing to the bound."""
        if self.middle_ns is not None:
            return self.middle_ns
        return self.low_ns if self.replayed else (self.low_ns + self.high_ns) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is said of one thing, by any wing. `about` is the leaf that its time goes to, or the risk that it is.

    `ranks`, `steps` and `lines` say where: the ranks that it strikes, the steps that show it (empty: all that were
    seen), lines of the user's code, the one with most of it first. `blames` names whom or what it is laid at: ranks,
    also some that were not collected, links, operators, settings. `cost_ns` is per step; None where nothing is lost in
    time. `doubts` are what it leaves open.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss(Finding):
    """A finding of time that a step loses. `cost_ns` is the median over steps, of the worst rank; `share` of the step.

    `code`, `layer`, `state`, `within`, `about` and, if it is not given, `fault` come from the rule. `replay` holds the
    changes that stand for its cure where steps are replayed, such as `rank:5=median`; without any, the gain stays a
    bound. `within` is the code of a broader finding of which this is a part: the part says more, and comes first; a
    rule says `apart` where that one does not hold its time. `explained_by` are the codes of the parts of this one that
    were found: `gain` is then what is left beyond them. `moments` are where it shows, at most one of each rank, best
    first. `endangers`: it ends the job in time, whatever it costs a step. `by_chance`: what steps differ anyway may
    have made it, so it is told as noise whatever it costs. `direct`: what it counts is the mistake itself, named in the
    capture, with no model or limit between the two. `assumed`: that its cost comes of its cause is assumed and not
    measured, so that it explains no other finding. `claim` is the part of the steps that it stands for, by which
    findings are ordered: what can be won of the leaf that it explains.
    """

    cost_ns: int
    gain: Gain
    share: float
    layer: Layer = "compute"
    fault: Fault | None = None
    replay: tuple[str, ...] = ()
    within: str = ""
    apart: bool = False
    explained_by: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    endangers: bool = False
    by_chance: bool = False
    direct: bool = False
    assumed: bool = False
    claim: float = 0.0

    @property
    def explains(self) -> frozenset[Leaf]:
        """The leaves that its time goes to; none of a risk."""
        if isinstance(self.about, Risk):
            return frozenset()
        return self.fault.explains if self.fault else frozenset({self.about})

    @property
    def at(self) -> Moment | None:
        """The moment that shows it best."""
        return self.moments[0] if self.moments else None
