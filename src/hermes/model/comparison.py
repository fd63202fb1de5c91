"""Two runs beside each other: what changed, and what of it may be chance."""

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
"""Of calls per step and rank: what arithmetic alone may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One time per step in both runs, in nanoseconds; None is "not measured", which 0 is not.

    `margin_ns` is what chance alone may change; None where there are too few steps. `calls` are per step and rank.
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
        """Below 0 when the second run is faster."""
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns

    @property
    def verdict(self) -> Verdict:
        """Whether the time became less or more, as far as the steps can tell."""
        if self.change_ns is None or self.margin_ns is None:
            return "not known"
        if abs(self.change_ns) <= self.margin_ns:
            return "no change seen"
        return "less" if self.change_ns < 0 else "more"

    @property
    def is_called_as_often(self) -> bool:
        """Whether the number of calls is the same, as far as the steps can tell."""
        if self.before_calls is None or self.after_calls is None:
            return self.before_calls == self.after_calls
        return abs(self.after_calls - self.before_calls) <= (self.calls_margin or 0.0) + _ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One rank in both runs: its typical step, or, with the numbers of `steps`, one step of each. `times` begin with
    the window, its parts follow.
    """

    rank: int
    steps: tuple[int | None, int | None] | None
    times: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """A finding that came, went or stayed, with its cost per step in the runs that have it."""

    state: Literal["came", "went", "stayed"]
    code: str
    fault: Fault | None
    message: Text
    before_ns: int | None
    after_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting that is another; None where a run does not record it."""

    source: str
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that changed; lists are ordered by the size of the change. `steps` and `ranks` are those of each run.

    `answer` is what to read first. `unmet` is what the runs do not share, or what an input lacks. `beside` are rows by
    rank or by step, where they were asked for.
    """

    answer: Message
    titles: tuple[str, str]
    steps: tuple[int, int]
    ranks: tuple[int, int]
    step: Change
    parts: tuple[Change, ...]
    names: Mapping[str, tuple[Change, ...]]
    findings: tuple[FindingChange, ...]
    settings: tuple[SettingChange, ...]
    unmet: tuple[Message, ...] = ()
    beside: tuple[Beside, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The answer in a word: runs that do not share everything are neither as fast nor slower."""
        return "not all compared" if self.unmet else _OUTCOMES[self.step.verdict]

    @property
    def holds(self) -> bool:
        """Whether everything was compared, and the second run is no slower."""
        return self.outcome in ("as fast", "faster")
