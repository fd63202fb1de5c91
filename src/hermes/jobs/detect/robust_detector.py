"""The default preset `robust`: detects slow steps by ranks instead of means, corrected for autocorrelation.

The detector looks at one series in four ways, after dividing it by the work of each step:

- *spikes*: four steps in a row above both median + 5 robust deviations and 1.15 times the 99th percentile;
- *windows*: the last 40, 80, … 640 steps against the reference, by rank sum;
- *CUSUM*: the steps since the cumulated sum last left zero, by the same rank sum, once it exceeds 12 deviations;
- *turns*: how many of the last 100, 200 and 400 steps are far above the others, against the reference, or whether
  every Nth step is slow (`turns`).

An alarm begins a new reference. Until the new reference has sixty steps, four steps in a row that are 1.5 times as long
raise another alarm.

A rank sum counts only if medians and means differ by 4 %, and if its corrected z is 5 or more. The correction divides
by the root of the series' autocorrelation time; large and long changes need less. So a series that wanders needs longer
windows, and no threshold is set by hand for it. The sources of these numbers are in `docs/evidence/detection.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hermes.inside.wire.step_record import FLAGS
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.alarm_thresholds import RobustSettings
from hermes.jobs.detect.alternating_slow_steps import AlternatingSlowSteps, by_period, by_turns
from hermes.jobs.detect.ranksum import Floats, autocorrelation_time, mean, middle, rank_sum_z
from hermes.jobs.detect.step_time_unit import LEFT_OUT
from hermes.jobs.detect.warmup import SlowStretch, warm_up

_FASTER_Z = 6.0
_WARM_UP = 400
_LONG = 80
_EARLY = 20
_EARLY_RATIO = 1.15
_MUCH_WORSE = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """The state before an alarm: step times by work, step numbers, work; `length` is that of the slow stretch."""

    kind: AlarmKind
    length: int
    period: int
    columns: tuple[Floats, npt.NDArray[np.int64], Floats]


class Robust:
    """A detector of one rank. The detector costs some microseconds a step on average, in the watching process."""

    needs_work = True

    def __init__(self, rank: int, settings: RobustSettings | None = None) -> None:
        self._rank = rank
        self._settings = settings or RobustSettings()
        self._keep = self._settings.most_reference + 2 * max(self._settings.windows)
        self._begin()

    def _begin(self) -> None:
        """Reset the detector to the state at a job's start."""
        self._aside = SlowStretch()
        self._before: _Before | None = None
        self._start: list[float] = []
        self._turn: AlternatingSlowSteps | None = None
        self._worse = math.inf
        self._skip = self._settings.skip
        self._restart()

    def _restart(self) -> None:
        self._values = np.empty(2 * self._keep)
        self._steps = np.empty(2 * self._keep, dtype=np.int64)
        self._work = np.empty(2 * self._keep)
        self._count = 0
        self._fitted = 0
        self._row = 0
        self._sum = 0.0
        self._sum_from = 0
        self._median = self._deviation = self._limit = self._level = math.inf
        self._time = 1.0
        self._sorted: Floats = np.empty(0)

    @property
    def slow(self) -> bool:
        """Whether an alarm was raised and the steps are not yet as they were before it."""
        return self._before is not None

    @property
    def baseline_ns(self) -> int | None:
        """Typical time in ns of a step (of the reference, at the work of the latest steps); None while it is learnt."""
        if not self._fitted:
            return None
        return int(self._median * middle(self._work[max(self._count - 40, 0) : self._count]))

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """Take a step; returns an alarm or None. Steps that a capture, checkpoint or evaluation slows are left out."""
        if flags & (FLAGS["resumed"] | FLAGS["first"]):
            self._begin()
        if flags & LEFT_OUT:
            self._aside.excused()
            return None
        value, amount = (wall_ns / work, float(work)) if work > 0 else (float(wall_ns), 1.0)
        if self._skip:
            self._skip -= 1
            self._start.append(value)
            return None
        found: Alarm | None = None
        slow = value >= self._limit
        for kept in self._aside.add((step, value, amount), slow=slow, start=self._settings.skip):
            self._add(*kept)
            # One alarm a step: the other steps kept aside are of the same stretch.
            found = found or self._look()
        return found

    def _look(self) -> Alarm | None:
        settings, count = self._settings, self._count
        if self._before is not None and count % settings.every == 0 and (over := self._recovered(self._before)):
            return over
        if count < settings.least_reference:
            return self._much_worse()
        if self._due():
            self._fit()
            if self._start:
                self._learn_start()
                # The remaining steps may be too few.
                if not self._fitted:
                    return None
        found = self._spikes() or self._cusum() or (self._seldom() if count % settings.every == 0 else None)
        return self._raise(found) if found else None

    def _seldom(self) -> tuple[AlarmKind, int, float] | None:
        """The checks that run only every few steps: changed work, faster steps, early slowness, windows and turns."""
        if self._work_changed():
            self._restart()
            self._before = None
            return None
        return None if self._faster() else self._early() or self._windows() or self._turns()

    def _raise(self, found: tuple[AlarmKind, int, float]) -> Alarm:
        """Make the alarm; the reference is kept until the steps have recovered."""
        alarm = self._alarm(*found)
        if self._before is None:
            kept = self._reference_of(found[1])
            columns = (self._values[kept].copy(), self._steps[kept].copy(), self._work[kept].copy())
            self._before = _Before(kind=alarm.kind, length=found[1], period=alarm.period, columns=columns)
        self._worse = max(self._limit, _MUCH_WORSE * middle(self._values[self._count - found[1] : self._count]))
        self._turn = None
        # Later steps are compared with the new level, so the same level raises no second alarm.
        self._restart()
        return alarm

    def _reference_of(self, length: int) -> npt.NDArray[np.int64]:
        """The steps that an alarm over the last `length` is compared with: if every Nth was slow, all others."""
        if self._turn is not None and self._turn.limit < math.inf:
            return np.flatnonzero(self._values[: self._count] < self._turn.limit)[: self._settings.most_reference]
        return np.arange(max(min(self._reference_size(length), self._count - length), 0))

    def _much_worse(self) -> Alarm | None:
        """An alarm if steps are far worse than those of the last alarm, and too few steps for a reference followed."""
        row = self._settings.row
        recent = self._values[max(self._count - row, 0) : self._count]
        if self._before is None or len(recent) < row or float(recent.min()) < self._worse:
            return None
        before = middle(self._values[: self._count - row]) if self._count > row else self._worse / _MUCH_WORSE
        after, work = middle(recent), middle(self._work[self._count - row : self._count])
        alarm = Alarm(
            rank=self._rank, kind=AlarmKind.SPIKES, step=int(self._steps[self._count - 1]), score=after / before,
            since=int(self._steps[self._count - row]), before_ns=int(before * work), after_ns=int(after * work),
        )  # fmt: skip
        self._worse = _MUCH_WORSE * after
        self._restart()
        return alarm

    def _learn_start(self) -> None:
        """Learn how long the job's first steps were slow; drop them from the reference. Such a stretch is no alarm."""
        start, self._start = self._start, []
        first = np.concatenate([start, self._values[: self._count]])
        length = warm_up(first)
        if length >= len(first) // 2:
            return
        self._aside.learn(length)
        if (inside := length - len(start)) > 0:
            self._rebase(self._count - inside)

    def _recovered(self, before: _Before) -> Alarm | None:
        """The end of an alarm if the latest steps are as before the alarm; the earlier reference is then used again."""
        window = max(100, 3 * before.period) if before.kind is AlarmKind.TURNS else 40
        if self._count < window:
            return None
        recent, then = self._values[self._count - window : self._count], before.columns[0]
        usual = middle(then)
        most = 1 + self._settings.effect / 2
        if middle(recent) > most * usual:
            return None
        cap = math.inf if before.kind is AlarmKind.TURNS else 3 * usual
        if mean(np.minimum(recent, cap)) > (most + 0.02) * mean(np.minimum(then, cap)):
            return None
        work = middle(self._work[self._count - window : self._count])
        alarm = Alarm(
            rank=self._rank, kind=AlarmKind.RECOVERED, step=int(self._steps[self._count - 1]),
            since=int(self._steps[self._count - window]), before_ns=int(usual * work),
            after_ns=int(middle(recent) * work), score=0.0,
        )  # fmt: skip
        if self._count <= window + 60:
            self._aside.learn(before.length + self._count - window)
        self._before = None
        self._restart()
        size = len(then)
        self._values[:size], self._steps[:size], self._work[:size] = before.columns
        self._count = size
        return alarm

    def _add(self, step: int, value: float, work: float) -> None:
        if self._count == len(self._values):
            # The reference stays, and the newest of the other steps: the steps between the two are cut out.
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
        """Whether to fit the reference anew: it is fitted less and less often while it grows."""
        size = self._reference_size(0)
        return size > self._fitted and (size >= 1.1 * self._fitted or size == self._settings.most_reference)

    def _reference_size(self, window: int) -> int:
        return min(self._settings.most_reference, self._count - window)

    def _fit(self) -> None:
        settings = self._settings
        # The newest steps may already be the change: they wait before they join the reference.
        size = self._reference_size(0 if self._count < 2 * settings.least_reference else settings.least_reference // 2)
        reference = self._values[:size]
        self._fitted = self._reference_size(0)
        self._sorted = np.sort(reference)
        self._median = middle(reference)
        deviation = 1.4826 * middle(np.abs(reference - self._median))
        self._deviation = max(deviation, 0.002 * self._median)
        p99 = float(np.quantile(reference, 0.99))
        spike = self._median + settings.spike_deviations * self._deviation
        self._limit = max(spike, settings.spike_over_p99 * p99)
        self._level = mean(np.minimum(self._values[: self._fitted], 3 * self._median))
        self._time = autocorrelation_time(reference)

    def _spikes(self) -> tuple[AlarmKind, int, float] | None:
        value = self._values[self._count - 1]
        self._row = self._row + 1 if value >= self._limit else 0
        if self._row < self._settings.row:
            return None
        return AlarmKind.SPIKES, self._row, (value - self._median) / self._deviation

    def _cusum(self) -> tuple[AlarmKind, int, float] | None:
        value = self._values[self._count - 1]
        # A single extreme step is no evidence of a lasting change.
        move = min((value - self._median) / self._deviation, 4.0) - self._settings.cusum_slack
        self._sum = max(0.0, self._sum + move)
        if self._sum == 0.0:
            self._sum_from = self._count
            return None
        length = self._count - self._sum_from
        if self._sum < self._settings.cusum_limit or length < 10 or (length % self._settings.every and length > 40):
            return None
        return self._compared(min(length, max(self._settings.windows)))

    def _windows(self) -> tuple[AlarmKind, int, float] | None:
        for window in self._settings.windows:
            if self._count - window < max(window // 4, self._settings.least_reference):
                break
            # A long window changes little in five steps.
            if self._count % (window // 8):
                continue
            if found := self._compared(window):
                return found
        return None

    def _early(self) -> tuple[AlarmKind, int, float] | None:
        """Slowness from soon after the start: the reference itself falls into two parts, the second above the first."""
        settings, count = self._settings, self._count
        if self._before is not None or count > 3 * settings.least_reference or count % (4 * settings.every):
            return None
        values, best = self._values[:count], (0.0, 0)
        for split in range(_EARLY, count - _EARLY + 1, settings.every):
            first, then = values[:split], values[split:]
            ratio = min(middle(then) / middle(first), mean(then) / mean(first))
            if ratio >= _EARLY_RATIO:
                best = max(best, (rank_sum_z(np.sort(first), then), split))
        score, split = best
        # A stretch as long as the job's slow first steps raises no alarm.
        if count - split <= self._aside.allowed or not split:
            return None
        first, then = values[:split], values[split:]
        apart = float(np.quantile(then, 0.1)) >= _EARLY_RATIO * float(np.quantile(first, 0.9))
        score /= math.sqrt(autocorrelation_time(np.concatenate([first / np.median(first), then / np.median(then)])))
        return (AlarmKind.SHIFT, count - split, score) if score >= settings.z or apart else None

    def _turns(self) -> tuple[AlarmKind, int, float] | None:
        if self._count % (4 * self._settings.every):
            return None
        values, numbers = self._values[: self._count], self._steps[: self._count]
        found = by_turns(values, self._settings.most_reference)
        if found is None and (self._before is None or self._before.kind is not AlarmKind.TURNS):
            found = by_period(values, numbers)
        self._turn = found
        return (AlarmKind.TURNS, found.length, found.score) if found else None

    def _compared(self, window: int) -> tuple[AlarmKind, int, float] | None:
        """Whether the last `window` steps lie above the reference: the kind, the number of steps, and the score."""
        size = self._reference_size(window)
        if size < self._settings.least_reference // 2:
            return None
        recent = self._values[self._count - window : self._count]
        before = self._median if size >= self._fitted else middle(self._values[:size])
        # With two modes the median may jump by chance, and with spikes the mean does: the smaller of both counts.
        known = size >= self._fitted
        ratio = middle(recent) / before
        if ratio < 1 + self._settings.effect:
            return None
        level = self._level if known else mean(np.minimum(self._values[:size], 3 * before))
        ratio = min(ratio, mean(np.minimum(recent, 3 * before)) / level)
        if ratio < 1 + self._settings.effect:
            return None
        reference = self._sorted if len(self._sorted) <= size else np.sort(self._values[:size])
        score = rank_sum_z(reference, recent) / math.sqrt(self._time)
        least_z = self._settings.z
        if window >= _LONG:
            # A machine that is busy in bursts hides large changes behind larger noise: there size is evidence.
            least_z -= min(max(4 * (ratio - 1.1), 0.0), 2.5)
        if score < least_z:
            return None
        return self._kind(recent, before), window, score

    def _faster(self) -> bool:
        """Whether steps have become faster for good, as after a warm-up or a repair: the reference then begins anew.

        A warm-up is a trend, and a trend makes the autocorrelation time long. In the first steps this time is left out,
        and the limits are twice the effect and a larger z. An error costs a reference, not an alarm.
        """
        time = 1.0 if self._count <= _WARM_UP else self._time
        for window in self._settings.windows[:2]:
            if self._count % (window // 8):
                continue
            size = self._reference_size(window)
            if size < self._settings.least_reference // 2:
                return False
            recent = self._values[self._count - window : self._count]
            reference = self._sorted if len(self._sorted) <= size else np.sort(self._values[:size])
            if middle(recent) > (1 - 2 * self._settings.effect) * float(reference[len(reference) // 2]):
                continue
            if rank_sum_z(reference, recent) <= -_FASTER_Z * math.sqrt(time):
                self._rebase(window)
                return True
        return False

    def _rebase(self, window: int) -> None:
        kept = slice(self._count - window, self._count)
        values, steps, work = self._values[kept].copy(), self._steps[kept].copy(), self._work[kept].copy()
        self._restart()
        self._values[:window], self._steps[:window], self._work[:window] = values, steps, work
        self._count = window

    def _kind(self, recent: Floats, before: float) -> AlarmKind:
        third = max(len(recent) // 3, 1)
        rise = middle(recent[-third:]) - middle(recent[:third])
        return AlarmKind.DRIFT if len(recent) >= 80 and rise > 0.5 * (middle(recent) - before) else AlarmKind.SHIFT

    def _work_changed(self) -> bool:
        """Whether the work of a step changed for good: times of a step at another batch size do not compare."""
        if self._count < self._settings.least_reference + 40:
            return False
        now = self._work[self._count - 40 : self._count]
        then = np.sort(self._work[: self._settings.least_reference])
        if abs(middle(now) / float(then[len(then) // 2]) - 1) <= self._settings.work_change:
            return False
        # Text lengths differ from step to step, and the median of forty differs, too.
        return abs(rank_sum_z(then, now)) >= _FASTER_Z

    def _alarm(self, kind: AlarmKind, length: int, score: float) -> Alarm:
        recent = slice(self._count - length, self._count)
        work = middle(self._work[recent])
        before, after = self._median, middle(self._values[recent])
        turn = self._turn if kind is AlarmKind.TURNS else None
        if turn is not None:
            before, after = turn.usual, mean(self._values[recent])
        elif length >= self._count - self._settings.least_reference:
            before = middle(self._values[: self._count - length])
        return Alarm(
            rank=self._rank, kind=kind, step=int(self._steps[self._count - 1]),
            since=int(self._steps[self._count - length]), before_ns=int(before * work),
            after_ns=int(after * work), score=score, period=turn.period if turn is not None else 0,
        )  # fmt: skip
