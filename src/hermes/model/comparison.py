"""The comparison of two runs: which times, findings and settings changed, and how much of a change may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Message, Text
from hermes.model.fault import Fault

Verdict = Literal["less", "more", "no change seen", "not known"]
Outcome = Literal["as fast", "faster", "slower", "not known", "not all compared"]
_OUTCOMES: Mapping[Verdict, Outcome] = {
    "no change seen": "as fast", "less": "faster", "more": "slower", "not known": "not known",
}  # fmt: skip

_ROUNDING = 1e-6
"""The change in calls per step and rank that rounding alone may cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeChange:
    """One time per step in both runs, in nanoseconds; None means "not measured", and 0 means no time.

    `margin_ns` is the change that chance alone may cause; None where there are too few steps. `calls` are per step and
    rank.
    """

    kind: str
    name: str
    before_ns: int | None
    after_ns: int | None
    margin_ns: int | None
    before_calls: float | None = None
    after_calls: float | None = None
    calls_margin: float | None = None

    @property
    def change_ns(self) -> int | None:
        """The change in nanoseconds, below 0 when the second run is faster."""
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns

    @property
    def verdict(self) -> Verdict:
        """Whether the time decreased or increased, beyond what the variation of steps explains."""
        if self.change_ns is None or self.margin_ns is None:
            return "not known"
        if abs(self.change_ns) <= self.margin_ns:
            return "no change seen"
        return "less" if self.change_ns < 0 else "more"

    @property
    def is_called_as_often(self) -> bool:
        """Whether the number of calls is the same in both runs, beyond the variation of steps."""
        if self.before_calls is None or self.after_calls is None:
            return self.before_calls == self.after_calls
        return abs(self.after_calls - self.before_calls) <= (self.calls_margin or 0.0) + _ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class RankInBothRuns:
    """One rank in both runs: its typical step, or, with the numbers of `steps`, one step of each run.

    `times` begin with the window; the parts of the window follow.
    """

    rank: int
    steps: tuple[int | None, int | None] | None
    times: tuple[TimeChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding that appeared, disappeared or stayed in the second run, with its cost per step in the runs with it."""

    state: Literal["came", "went", "stayed"]
    code: str
    fault: Fault | None
    message: Text
    before_ns: int | None
    after_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting whose value differs between the runs; None where a run does not record the setting."""

    source: str
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All changes between two runs; lists are ordered by the size of the change. `steps` and `ranks` are of each run.

    `answer` is the first sentence to read. `unmet` lists data that the runs do not share, or that an input lacks.
    `beside` are rows by rank or by step, if the user asked for such rows.
    """

    answer: Message
    titles: tuple[str, str]
    steps: tuple[int, int]
    ranks: tuple[int, int]
    step: TimeChange
    parts: tuple[TimeChange, ...]
    names: Mapping[str, tuple[TimeChange, ...]]
    findings: tuple[FindingChange, ...]
    settings: tuple[SettingChange, ...]
    unmet: tuple[Message, ...] = ()
    beside: tuple[RankInBothRuns, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The result in a word; runs that do not share all data are neither as fast nor slower."""
        return "not all compared" if self.unmet else _OUTCOMES[self.step.verdict]

    @property
    def holds(self) -> bool:
        """Whether all data was compared, and the second run is no slower."""
        return self.outcome in ("as fast", "faster")
