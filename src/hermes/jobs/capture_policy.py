"""Decides which alarms may start an automatic capture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hermes.base.message import Message
from hermes.jobs.detect.causes import Spent
from hermes.jobs.detect.job_alarms import Notice
from hermes.jobs.messages import captured_lately, captures_spent, refused_lately

COOL_DOWN_NS = 2 * 3600 * 1_000_000_000
"""Time in ns after an automatic capture in which a similar alarm starts no other capture."""
REFILL_NS = 8 * 3600 * 1_000_000_000
"""Time in ns after which one more automatic capture may be made."""
MOST_CAPTURES = 3
"""Largest number of automatic captures that may be made without a wait."""
RETRY_NS = 300 * 1_000_000_000
"""Wait in ns after a capture that every rank refused: the obstacle, a full disk or another profiler, may then be
gone."""
WORSE = 3.0
"""An alarm that loses three times as much time as another alarm is not similar to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The subject of an alarm: its cause as a word, and by what share a step takes longer; None if unknown."""

    cause: str | None = None
    more: float | None = None

    def like(self, other: Trouble) -> bool:
        """Whether a capture of `other` would show the same: the same cause, and this trouble is not many times
        worse."""
        if None in (self.more, other.more):
            return True
        return self.cause == other.cause and not self.worse(other)

    def worse(self, other: Trouble) -> bool:
        """Whether this trouble loses at least three times as much time as `other`."""
        return self.more is not None and other.more is not None and self.more >= WORSE * other.more


def trouble_of(notice: Notice) -> Trouble:
    """The trouble that a notice is about."""
    if notice.late is not None:
        more = notice.late.waited_ns / max(notice.late.others_ns, 1)
        return Trouble(cause=Spent.STRAGGLER.value, more=more)
    if notice.alarm is None:
        return Trouble()
    return Trouble(cause=notice.cause.name.value if notice.cause else "", more=max(notice.alarm.ratio - 1, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCapture:
    """An automatic capture: its start, in nanoseconds since 1970, and the trouble that it was about."""

    at_ns: int
    about: Trouble


class CapturePolicy:
    """The limits on automatic captures: at most three at once, and one more every eight hours. A cause that was
    captured already gets one capture every two hours.

    The last of the three is kept for trouble many times worse than all trouble captured in these two hours. An alarm
    that may not start a capture lengthens no wait. Manual captures are not counted, nor captures that every rank
    refused: a refusal only delays the next capture for some minutes.
    """

    def __init__(self) -> None:
        self._starts: list[StartedCapture] = []
        self._retry_ns = 0

    @property
    def captures(self) -> int:
        """Number of automatic captures started so far, as far as known."""
        return len(self._starts)

    def refusal(self, now_ns: int, about: Trouble) -> Message | None:
        """Why an alarm at `now_ns` may not start a capture; None when it may."""
        left = self._left(now_ns)
        lately = [one for one in self._starts if now_ns - one.at_ns < COOL_DOWN_NS]
        if left < 1:
            return captures_spent(n=_hours((1 - left) * REFILL_NS))
        if now_ns < self._retry_ns:
            return refused_lately(n=_minutes(now_ns - self._retry_ns + RETRY_NS))
        alike = [one for one in lately if about.like(one.about)]
        if not alike and lately and left < 2 and not all(about.worse(one.about) for one in lately):
            alike = lately
        return captured_lately(n=_minutes(now_ns - alike[-1].at_ns)) if alike else None

    def _left(self, now_ns: int) -> float:
        """How many captures may be made now; fractions grow until the next capture is allowed."""
        left, last = float(MOST_CAPTURES), 0
        for one in self._starts:
            left = min(left + max(one.at_ns - last, 0) / REFILL_NS, float(MOST_CAPTURES)) - 1
            last = one.at_ns
        return min(left + max(now_ns - last, 0) / REFILL_NS, float(MOST_CAPTURES))

    def restore(self, started: Iterable[StartedCapture]) -> None:
        """Add the captures that earlier watchers started: a job's captures are counted over all its watchers."""
        known = {one.at_ns // 1_000_000: one for one in (*started, *self._starts)}
        self._starts = [known[at] for at in sorted(known)]

    def started(self, now_ns: int, about: Trouble) -> None:
        """Note that a capture was started at `now_ns`."""
        self._starts.append(StartedCapture(at_ns=now_ns, about=about))

    def refused(self, now_ns: int) -> None:
        """Note that no rank accepted the last capture: it does not count, and the next may follow soon."""
        self._starts.pop()
        self._retry_ns = now_ns + RETRY_NS


def _minutes(ns: float) -> int:
    return round(ns / 60e9)


def _hours(ns: float) -> int:
    return max(round(ns / 3600e9), 1)
