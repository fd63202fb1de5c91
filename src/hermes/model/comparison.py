"""Two runs beside each other: what changed, and what of it may be chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Text
from hermes.model.fault import Fault

Verdict = Literal["less", "more", "no change seen", "not known"]


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

    `beside` are rows by rank or by step, where they were asked for.
    """

    titles: tuple[str, str]
    steps: tuple[int, int]
    ranks: tuple[int, int]
    step: Change
    parts: tuple[Change, ...]
    names: Mapping[str, tuple[Change, ...]]
    findings: tuple[FindingChange, ...]
    settings: tuple[SettingChange, ...]
    beside: tuple[Beside, ...] = ()
