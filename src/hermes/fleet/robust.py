"""The default preset: ranks instead of means, evidence weighed by how alike neighbouring steps are, sizes verified.

Three looks at the same series, after it was divided by the work of each step:

- *spikes*: four steps in a row above both median + 5 robust deviations and 1.15 times the 99th percentile;
- *windows*: the last 40, 80, … 640 steps against the reference, by rank sum;
- *CUSUM*: the steps since the cumulated sum last left zero, by the same rank sum, once it exceeds 12 deviations.

A rank sum counts only when its z, divided by the root of the series' autocorrelation time, is 5 or more (less for large
and long changes), and when medians and means differ by 4 %. So a series that wanders needs longer windows, and no
threshold is set by hand for it.
Where these numbers come from: `docs/evidence/detection.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hermes.fleet.alarm import Alarm
from hermes.live.record import FLAGS

Floats = npt.NDArray[np.float64]
_FASTER_Z = 6.0
_WARM_UP = 400
_LONG = 80
_LONGEST_TIME = 40.0
_LEFT_OUT = sum(FLAGS[name] for name in ("first", "profiled", "checkpoint", "evaluation", "foreign_profiler"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustSettings:
    """Sizes are in steps; see `docs/evidence/detection.md`."""

    skip: int = 20
    least_reference: int = 60
    most_reference: int = 1000
    windows: tuple[int, ...] = (40, 80, 160, 320, 640)
    every: int = 5
    z: float = 5.0
    effect: float = 0.04
    row: int = 4
    spike_deviations: float = 5.0
    spike_over_p99: float = 1.15
    cusum_slack: float = 0.5
    cusum_limit: float = 12.0
    work_change: float = 0.10


class Robust:
    """Detector of one rank. Costs some microseconds a step on average, in the watching process."""

    def __init__(self, rank: int, settings: RobustSettings | None = None) -> None:
        self._rank = rank
        self._settings = settings or RobustSettings()
        self._keep = self._settings.most_reference + 2 * max(self._settings.windows)
        self._restart(skip=self._settings.skip)

    def _restart(self, *, skip: int) -> None:
        self._skip = skip
        self._values = np.empty(2 * self._keep)
        self._steps = np.empty(2 * self._keep, dtype=np.int64)
        self._work = np.empty(2 * self._keep)
        self._count = 0
        self._fitted = 0
        self._row = 0
        self._sum = 0.0
        self._sum_from = 0
        self._median = self._deviation = self._limit = math.inf
        self._time = 1.0
        self._sorted: Floats = np.empty(0)

    @property
    def baseline_ns(self) -> int | None:
        """Typical time of a step (of the reference, at the work of the latest steps); None while it is learnt."""
        if not self._fitted:
            return None
        return int(self._median * float(np.median(self._work[max(self._count - 40, 0) : self._count])))

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """A step. Those that a capture, a checkpoint or an evaluation slows are left out."""
        if flags & FLAGS["resumed"]:
            self._restart(skip=self._settings.skip)
        if flags & _LEFT_OUT:
            return None
        if self._skip:
            self._skip -= 1
            return None
        self._add(step, wall_ns / work if work > 0 else float(wall_ns), float(work) if work > 0 else 1.0)
        settings, count = self._settings, self._count
        if count < settings.least_reference:
            return None
        if self._due():
            self._fit()
        found = self._spikes() or self._cusum()
        if found is None and count % settings.every == 0:
            if self._work_changed():
                self._restart(skip=0)
                return None
            if self._faster():
                return None
            found = self._windows()
        if found is None:
            return None
        alarm = self._alarm(*found)
        # What comes now is compared with what is now: the level that was alarmed about is not alarmed about again.
        self._restart(skip=0)
        return alarm

    def _add(self, step: int, value: float, work: float) -> None:
        if self._count == len(self._values):
            # The reference stays, of the rest the newest: what is cut out lies between the two.
            first, keep = self._settings.most_reference, 2 * max(self._settings.windows)
            cut = self._count - keep
            for column in (self._values, self._steps, self._work):
                column[first : first + keep] = column[cut : self._count].copy()
            self._sum_from = max(first, self._sum_from - (cut - first))
            self._count = first + keep
        self._values[self._count] = value
        self._steps[self._count] = step
        self._work[self._count] = work
        self._count += 1

    def _due(self) -> bool:
        """The reference is fitted anew while it grows, less and less often."""
        size = self._reference_size(0)
        return size > self._fitted and (size >= 1.1 * self._fitted or size == self._settings.most_reference)

    def _reference_size(self, window: int) -> int:
        return min(self._settings.most_reference, self._count - window)

    def _fit(self) -> None:
        settings = self._settings
        # The newest steps may already be the change: they wait to become part of the reference.
        size = self._reference_size(0 if self._count < 2 * settings.least_reference else settings.least_reference // 2)
        reference = self._values[:size]
        self._fitted = self._reference_size(0)
        self._sorted = np.sort(reference)
        self._median = float(np.median(reference))
        deviation = 1.4826 * float(np.median(np.abs(reference - self._median)))
        self._deviation = max(deviation, 0.002 * self._median)
        p99 = float(np.quantile(reference, 0.99))
        spike = self._median + settings.spike_deviations * self._deviation
        self._limit = max(spike, settings.spike_over_p99 * p99)
        self._time = autocorrelation_time(reference)

    def _spikes(self) -> tuple[str, int, float] | None:
        value = self._values[self._count - 1]
        self._row = self._row + 1 if value >= self._limit else 0
        if self._row < self._settings.row:
            return None
        return "spikes", self._row, (value - self._median) / self._deviation

    def _cusum(self) -> tuple[str, int, float] | None:
        value = self._values[self._count - 1]
        # One wild step is no evidence of a lasting change, however wild.
        move = min((value - self._median) / self._deviation, 4.0) - self._settings.cusum_slack
        self._sum = max(0.0, self._sum + move)
        if self._sum == 0.0:
            self._sum_from = self._count
            return None
        length = self._count - self._sum_from
        if self._sum < self._settings.cusum_limit or length < 10 or (length % self._settings.every and length > 40):
            return None
        return self._compared(min(length, max(self._settings.windows)))

    def _windows(self) -> tuple[str, int, float] | None:
        for window in self._settings.windows:
            if self._count - window < max(window // 4, self._settings.least_reference):
                break
            if found := self._compared(window):
                return found
        return None

    def _compared(self, window: int) -> tuple[str, int, float] | None:
        """Whether the last `window` steps lie above the reference: how, for how many steps, and the score."""
        size = self._reference_size(window)
        if size < self._settings.least_reference // 2:
            return None
        recent = self._values[self._count - window : self._count]
        before = self._median if size >= self._fitted else float(np.median(self._values[:size]))
        # With two modes the median may jump by chance, and with spikes the mean does: the smaller of both counts.
        level = float(np.mean(np.minimum(self._values[:size], 3 * before)))
        ratio = min(float(np.median(recent)) / before, float(np.mean(np.minimum(recent, 3 * before))) / level)
        if ratio < 1 + self._settings.effect:
            return None
        reference = self._sorted if len(self._sorted) <= size else np.sort(self._values[:size])
        score = rank_sum_z(reference, recent) / math.sqrt(self._time)
        least_z = self._settings.z
        if window >= _LONG:
            # A machine that is busy in bursts hides what is large behind noise that is larger: there size is evidence.
            least_z -= min(max(4 * (ratio - 1.1), 0.0), 2.5)
        if score < least_z:
            return None
        return self._kind(recent, before), window, score

    def _faster(self) -> bool:
        """Steps have become faster for good, as after a warm-up or a repair: the reference begins anew with them.

        A warm-up is a trend, and a trend makes the autocorrelation time long: in the first steps that is left out, and
        twice the effect and a larger z stand in for it. To be wrong costs a reference, not an alarm.
        """
        time = 1.0 if self._count <= _WARM_UP else self._time
        for window in self._settings.windows[:2]:
            size = self._reference_size(window)
            if size < self._settings.least_reference // 2:
                return False
            recent = self._values[self._count - window : self._count]
            reference = self._sorted if len(self._sorted) <= size else np.sort(self._values[:size])
            if float(np.median(recent)) > (1 - 2 * self._settings.effect) * float(reference[len(reference) // 2]):
                continue
            if rank_sum_z(reference, recent) <= -_FASTER_Z * math.sqrt(time):
                self._rebase(window)
                return True
        return False

    def _rebase(self, window: int) -> None:
        kept = slice(self._count - window, self._count)
        values, steps, work = self._values[kept].copy(), self._steps[kept].copy(), self._work[kept].copy()
        self._restart(skip=0)
        self._values[:window], self._steps[:window], self._work[:window] = values, steps, work
        self._count = window

    def _kind(self, recent: Floats, before: float) -> str:
        third = max(len(recent) // 3, 1)
        rise = float(np.median(recent[-third:])) - float(np.median(recent[:third]))
        return "drift" if len(recent) >= 80 and rise > 0.5 * (float(np.median(recent)) - before) else "shift"

    def _work_changed(self) -> bool:
        """A lasting change of batch size is a new job: times of a step at another size do not compare."""
        if self._count < self._settings.least_reference + 40:
            return False
        now = self._work[self._count - 40 : self._count]
        then = np.sort(self._work[: self._settings.least_reference])
        if abs(float(np.median(now)) / float(then[len(then) // 2]) - 1) <= self._settings.work_change:
            return False
        # Lengths of texts differ from step to step, and forty of them in their median too.
        return abs(rank_sum_z(then, now)) >= _FASTER_Z

    def _alarm(self, kind: str, length: int, score: float) -> Alarm:
        recent = slice(self._count - length, self._count)
        work = float(np.median(self._work[recent]))
        return Alarm(
            rank=self._rank, kind=kind, step=int(self._steps[self._count - 1]),
            since=int(self._steps[self._count - length]), before_ns=int(self._median * work),
            after_ns=int(float(np.median(self._values[recent])) * work), score=score,
        )  # fmt: skip


def rank_sum_z(reference: Floats, recent: Floats) -> float:
    """z of the Wilcoxon rank-sum test that `recent` lies above `reference`, which is sorted; ties count half.

    The variance is that without ties, which makes the score smaller than it is when there are many.
    """
    n, m = len(reference), len(recent)
    below = np.searchsorted(reference, recent, side="left") + np.searchsorted(reference, recent, side="right")
    above = float(below.sum()) / 2
    return (above - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)


def autocorrelation_time(values: Floats) -> float:
    """How many neighbouring values of a series count as one: 1 + 2 times the sum of its autocorrelations.

    Of ranks, so that spikes weigh no more than other values; summed to the first lag whose pair is not positive (Geyer,
    Statistical Science 7, 1992). An autocorrelation from n values is too small by about 1/n of the sum: corrected once.
    """
    n = len(values)
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable") - (n - 1) / 2
    spectrum = np.fft.rfft(ranks, 2 * n)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), 2 * n)[:n]
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    total, lag = 1.0, 1
    while lag + 1 < n // 2:
        pair = rho[lag] + rho[lag + 1]
        # Below two standard errors of the sum of two it is noise.
        if pair < 2 * math.sqrt(2 / n):
            break
        total += 2 * pair
        lag += 2
    return float(min(max(1.0, total * (1 + 2 * total / n)), _LONGEST_TIME))
