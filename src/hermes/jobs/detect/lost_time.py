"""Counts how much time a rank has lost since its steps became slower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from hermes.inside.wire.step_record import AT
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.step_time_unit import LEFT_OUT, Row

_STEP, _WALL, _FLAGS = AT["step"], AT["wall_ns"], AT["flags"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTime:
    """The time lost since step `since`: steps took `ns` more in all than the earlier `usual_ns` each."""

    since: int
    usual_ns: int
    ns: int


class Ledger:
    """A counter of one rank's lost time, from the first alarm until the rank has recovered. Steps under a capture do
    not count."""

    def __init__(self) -> None:
        self._open: LostTime | None = None

    @property
    def lost(self) -> LostTime | None:
        """The time lost since the first alarm that is not over; None without an alarm."""
        return self._open

    def step(self, row: Row) -> None:
        """Add the extra time of a step that has ended, while an alarm lasts."""
        if self._open is not None:
            self._open = LostTime(
                since=self._open.since, usual_ns=self._open.usual_ns,
                ns=self._open.ns + _more([row], self._open.usual_ns),
            )  # fmt: skip

    def alarm(self, alarm: Alarm, rows: Sequence[Row]) -> LostTime | None:
        """Note an alarm or its end; `rows` are the latest steps. Returns the time lost until now."""
        if alarm.kind is AlarmKind.RECOVERED:
            was, self._open = self._open, None
            return was
        if self._open is None:
            slow = list(takewhile(lambda row: row[_STEP] >= alarm.since, reversed(rows)))
            ns = _more(slow, alarm.before_ns)
            self._open = LostTime(since=alarm.since, usual_ns=alarm.before_ns, ns=ns)
        return self._open


def _more(rows: Iterable[Row], usual_ns: int) -> int:
    return sum(row[_WALL] - usual_ns for row in rows if not row[_FLAGS] & LEFT_OUT)
