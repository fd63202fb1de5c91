"""The preset `ksigma`: mean and deviation of a fixed baseline, as users of hosted training platforms know it.

Details that the public description leaves open are decided here, and listed in `docs/capture.md`.
"""

from __future__ import annotations

from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings

_SKIPPED = FLAGS["first"] | FLAGS["profiled"] | FLAGS["foreign_profiler"]
_FLOOR = 0.001
_RECOVERED = 20


class KSigma:
    """A detector that skips steps, takes a baseline, then counts steps in a row at or above mean + k deviations."""

    needs_work = False

    def __init__(self, rank: int, settings: KSigmaSettings | None = None) -> None:
        self._rank = rank
        self._settings = settings or KSigmaSettings()
        self._restart()

    def _restart(self) -> None:
        self._skipped = 0
        self._baseline: list[int] = []
        self._mean = self._deviation = 0.0
        self._row: list[tuple[int, int]] = []
        self._slow = False
        self._normal: list[tuple[int, int]] = []

    @property
    def settings(self) -> KSigmaSettings:
        """The thresholds that the detector uses now."""
        return self._settings

    @property
    def slow(self) -> bool:
        """Whether an alarm is not over: it ends after twenty steps in a row below the threshold."""
        return self._slow

    def change(self, settings: KSigmaSettings) -> None:
        """Use new thresholds for a running job: the count of steps in a row begins anew, the baseline stays."""
        self._settings = settings
        self._row = []

    @property
    def armed(self) -> bool:
        """Whether the detector's baseline of step times is complete."""
        return len(self._baseline) >= self._settings.baseline

    def score(self, wall_ns: int) -> float | None:
        """Deviations of a step time above the mean; None before there is a baseline."""
        return (wall_ns - self._mean) / self._deviation if self.armed else None

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """Take a step; `work` is ignored, since the algorithm knows times only."""
        if flags & (FLAGS["resumed"] | FLAGS["first"]):
            self._restart()
        if flags & _SKIPPED:
            return None
        if self._skipped < self._settings.skip:
            self._skipped += 1
            return None
        if not self.armed:
            self._baseline.append(wall_ns)
            self._fit()
            return None
        score = (wall_ns - self._mean) / self._deviation
        if score < self._settings.k:
            self._row = []
            return self._recovered(step, wall_ns, score) if self._slow else None
        self._normal = []
        self._row.append((step, wall_ns))
        if len(self._row) < self._settings.consecutive:
            return None
        row, self._row, self._slow = self._row, [], True
        after = sum(wall for _, wall in row) // len(row)
        return Alarm(
            rank=self._rank, kind=AlarmKind.SPIKES, step=step, since=row[0][0], before_ns=int(self._mean),
            after_ns=after, score=score,
        )  # fmt: skip

    def _recovered(self, step: int, wall_ns: int, score: float) -> Alarm | None:
        """The end of the alarm after twenty steps in a row below the threshold; the public description defines no
        end."""
        self._normal.append((step, wall_ns))
        if len(self._normal) < _RECOVERED:
            return None
        normal, self._normal, self._slow = self._normal, [], False
        after = sum(wall for _, wall in normal) // len(normal)
        return Alarm(
            rank=self._rank, kind=AlarmKind.RECOVERED, step=step, since=normal[0][0], before_ns=int(self._mean),
            after_ns=after, score=score,
        )  # fmt: skip

    def _fit(self) -> None:
        """Compute mean and population deviation; at least a thousandth of the mean, for clocks of whole
        milliseconds."""
        count = len(self._baseline)
        self._mean = sum(self._baseline) / count
        variance = sum((wall - self._mean) ** 2 for wall in self._baseline) / count
        self._deviation = max(variance**0.5, _FLOOR * self._mean, 1.0)
