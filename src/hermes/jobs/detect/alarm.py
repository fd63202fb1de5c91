"""What detection says: an alarm; and which alarms may start a capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermes.base.message import Message, Word
from hermes.jobs.detect.alarm_thresholds import COOL_DOWN_NS, MOST_CAPTURES, RETRY_NS
from hermes.jobs.messages import captured_lately, captures_spent, refused_lately


class AlarmKind(Word):
    """How steps of a rank changed.

    `spikes`: a few steps in a row far above all others. `shift`: a lasting change. `drift`: a growing one. `turns`:
    single slow steps. `recovered`: the steps are as they were before.
    """

    SPIKES = "spikes"
    SHIFT = "shift"
    DRIFT = "drift"
    TURNS = "turns"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Steps of a rank have become slower; single slow ones every `period` steps, or unevenly where that is 0.

    `step` is where it was noticed, `since` where it is thought to have begun. `before_ns` and `after_ns` are typical
    times of a step, of `turns` their means; `score` is in standard deviations of whatever the preset compares, of
    `turns` minus the logarithm of the chance.
    """

    rank: int
    kind: AlarmKind
    step: int
    since: int
    before_ns: int
    after_ns: int
    score: float
    period: int = 0

    @property
    def ratio(self) -> float:
        """After by before."""
        return self.after_ns / max(self.before_ns, 1)


class Detector(Protocol):
    """Fed one step after the other, in order; keeps bounded state. `needs_work`: times are divided by it."""

    needs_work: bool

    @property
    def slow(self) -> bool:
        """Whether an alarm was raised that is not over."""

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """A step, with its tokens, samples or batches as `work` (0: unknown), and its flags."""


class Policy:
    """Which alarms may start a capture by themselves: not within two hours of the last, and three in all.

    Alarms that may not are dropped, and lengthen nothing. Captures asked for by hand are not counted, nor those that
    every rank refused: they only put the next one off for some minutes.
    """

    def __init__(self, cool_down_ns: int = COOL_DOWN_NS, most: int = MOST_CAPTURES) -> None:
        self._cool_down_ns = cool_down_ns
        self._most = most
        self._last_ns: int | None = None
        self._before: int | None = None
        self._retry_ns = 0
        self.captures = 0

    def refusal(self, now_ns: int) -> Message | None:
        """Why an alarm at that time may not start a capture; None when it may."""
        if self.captures >= self._most:
            return captures_spent(n=self._most)
        if self._last_ns is not None and now_ns - self._last_ns < self._cool_down_ns:
            return captured_lately(n=_minutes(now_ns - self._last_ns))
        if now_ns < self._retry_ns:
            return refused_lately(n=_minutes(now_ns - self._retry_ns + RETRY_NS))
        return None

    def restore(self, started_ns: Sequence[int]) -> None:
        """What watchers before this one started: a job's captures are counted over all who watch it."""
        self.captures = max(self.captures, len(started_ns))
        self._last_ns = max([*started_ns, *filter(None, [self._last_ns])], default=None)

    def started(self, now_ns: int) -> None:
        """A capture was started at that time; the cool-down runs from here."""
        self._before, self._last_ns = self._last_ns, now_ns
        self.captures += 1

    def refused(self, now_ns: int) -> None:
        """No rank took up the capture that was started last: it cost nothing, and the next may follow soon."""
        self._last_ns = self._before
        self.captures -= 1
        self._retry_ns = now_ns + RETRY_NS


def _minutes(ns: int) -> int:
    return round(ns / 60e9)
