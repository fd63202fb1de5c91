"""Compares the cause that Hermes named with the planted cause, and the predicted gain with the measured gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from bench.judgement.zoo.entry import Entry

CONFIDENT = 0.5
"""A finding on a healthy program counts as a false alarm from this confidence on."""
WORTH = 1.3
"""Predicted gains are judged if the fix makes a step at least 1.3 times faster."""
NEAR = 0.25
"""A predicted gain is near the measured gain if it differs by at most this share of it."""
PLANTED = 1.1
"""Below this ratio, or within the noise, the planted cause costs nothing on this machine: no cause is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A finding in the form that is judged: its rule's code and cases, the case that the plan chose, and its gain.

    `gain` is the expected gain as a share of the step in the profile.
    """

    code: str
    cases: tuple[str, ...]
    case: str
    confidence: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Mean milliseconds of a step in each repeat; `again` are the times of a second process of the last variant.

    For a program without a fix `fixed` is empty, and `again` is compared with `slow`.
    """

    slow: tuple[float, ...]
    fixed: tuple[float, ...]
    again: tuple[float, ...]

    @property
    def slow_ms(self) -> float:
        """The median of the repeats."""
        return median(self.slow)

    @property
    def ratio(self) -> float | None:
        """How many times faster the fix makes a step: the median over pairs that ran one after the other."""
        return median(a / b for a, b in zip(self.slow, self.fixed, strict=True)) if self.fixed else None

    @property
    def same(self) -> tuple[float, ...]:
        """The ratios of two equal processes: the machine's own effect on a ratio."""
        return tuple(a / b for a, b in zip(self.again, self.fixed or self.slow, strict=True))

    @property
    def noise(self) -> float:
        """How far the median of these ratios is from 1."""
        return abs(median(self.same) - 1)

    @property
    def gain(self) -> float | None:
        """The share of a step that the fix saves."""
        return None if self.ratio is None else 1 - 1 / self.ratio

    @property
    def gain_ms(self) -> float | None:
        """Milliseconds of a step that the fix saves."""
        return None if self.gain is None else self.gain * self.slow_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one program: its times, the causes named from its profiles with and without the cause, and the
    monitor's.

    `own` is what was named from a capture that Hermes made itself, which also says what steps are like without it;
    `own` is None without such a capture. Then `own` is judged, else `named`, from a bare trace of torch.profiler.
    """

    entry: Entry
    times: Times
    named: tuple[Named, ...]
    cured: tuple[Named, ...]
    watched: tuple[str, ...]
    own: tuple[Named, ...] | None = None

    @property
    def found(self) -> tuple[Named, ...]:
        """The findings that are judged."""
        return self.named if self.own is None else self.own

    @property
    def plain(self) -> Result:
        """The result with the bare trace judged."""
        return replace(self, own=None)

    @property
    def planted(self) -> bool:
        """Whether the cause costs time on this machine; trends cost memory, and always count."""
        ratio = self.times.ratio
        return self.entry.trend or (ratio is not None and ratio > max(PLANTED, 1 + self.times.noise))

    @property
    def judged(self) -> bool:
        """Whether the program has a planted cause that costs something on this machine."""
        return bool(self.entry.causes) and self.planted

    @property
    def first(self) -> bool:
        """Whether the cause is named first; by the monitor, for a program that no profile can judge."""
        if self.entry.only_monitor:
            return bool(self.watched) and self.watched[0] in self.entry.monitor
        return bool(self.found) and names(self.entry, self.found[0])

    @property
    def among_three(self) -> bool:
        """Whether the cause, and for a tie each of the two, is among the first three findings."""
        if self.entry.only_monitor:
            return any(name in self.entry.monitor for name in self.watched[:3])
        three = self.found[:3]
        if self.entry.kind == "tie":
            return all(any(cause in one.cases for one in three) for cause in self.entry.causes)
        return any(names(self.entry, one) for one in three)

    @property
    def exact(self) -> bool:
        """Whether the plan chose one of the expected cases for one of the first three findings."""
        wanted = {*self.entry.causes, *self.entry.also}
        return any(one.case in wanted for one in self.found[:3])

    @property
    def seen_live(self) -> bool:
        """Whether the monitor named the cause without any profile."""
        return any(name in self.entry.monitor for name in self.watched)

    @property
    def still_named(self) -> bool:
        """Whether the cause is named, with confidence, after its fix."""
        return any(names(self.entry, one) and one.confidence >= CONFIDENT for one in self.cured[:3])

    @property
    def false_alarms(self) -> tuple[Named, ...]:
        """For a healthy program, the findings with confidence whose gain exceeds the machine's noise."""
        if self.entry.causes:
            return ()
        return tuple(one for one in self.found if one.confidence >= CONFIDENT and one.gain > self.times.noise)

    @property
    def predicted(self) -> float | None:
        """The share of a step that the findings about the cause predict to save; None without such a finding.

        A tie is cured of both causes, and what they give is added up.
        """
        found = [one.gain for one in self.found[:3] if names(self.entry, one)]
        if not found or self.entry.only_monitor or self.entry.trend:
            return None
        return min(sum(found), 1.0) if self.entry.kind == "tie" else found[0]

    @property
    def gain_judged(self) -> bool:
        """Whether the fix saves enough for its prediction to be judged."""
        ratio = self.times.ratio
        return self.predicted is not None and self.judged and ratio is not None and ratio > WORTH

    @property
    def near(self) -> bool:
        """Whether the predicted gain is near the measured gain."""
        gain, predicted = self.times.gain, self.predicted
        return gain is not None and predicted is not None and abs(predicted - gain) <= NEAR * gain


def names(entry: Entry, one: Named) -> bool:
    """Whether a finding's rule stands for the planted cause, or for an equivalent cause."""
    return bool({*entry.causes, *entry.also} & {*one.cases}) and not {one.case} & {*entry.never}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A count out of a total."""

    good: int
    of: int

    def __str__(self) -> str:
        return f"{self.good} of {self.of}" + (f" ({self.good / self.of:.0%})" if self.of else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures of one half of the zoo, or of all programs."""

    first: Share
    among_three: Share
    exact: Share
    quiet: Share
    near: Share
    live: Share
    gone: Share
    plain_first: Share
    plain_near: Share


def summary(results: Sequence[Result]) -> Summary:
    """The figures of a set of results."""
    judged = [one for one in results if one.judged]
    profiled = [one for one in judged if not one.entry.only_monitor]
    return Summary(
        first=_share([one.first for one in judged]),
        among_three=_share([one.among_three for one in judged]),
        exact=_share([one.exact for one in profiled]),
        quiet=_share([not one.false_alarms for one in results if not one.entry.causes]),
        near=_share([one.near for one in results if one.gain_judged]),
        live=_share([one.seen_live for one in judged if one.entry.monitor]),
        gone=_share([not one.still_named for one in profiled if one.among_three]),
        plain_first=_share([one.plain.first for one in judged]),
        plain_near=_share([one.plain.near for one in results if one.plain.gain_judged]),
    )


def _share(said: Sequence[bool]) -> Share:
    return Share(good=sum(said), of=len(said))
