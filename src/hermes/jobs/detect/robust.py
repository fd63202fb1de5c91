"""The default preset: ranks instead of means, evidence weighed by how alike neighbouring steps are, sizes verified.

Four looks at the same series, after it was divided by the work of each step:

- *spikes*: four steps in a row above both median + 5 robust deviations and 1.15 times the 99th percentile;
- *windows*: the last 40, 80, … 640 steps against the reference, by rank sum;
- *CUSUM*: the steps since the cumulated sum last left zero, by the same rank sum, once it exceeds 12 deviations;
- *turns*: how many of the last 100, 200 and 400 steps are far above the others, against the reference (`turns`).

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

from hermes.inside.wire.record import FLAGS
from hermes.jobs.detect.alarm import Alarm, AlarmKind
from hermes.jobs.detect.alarm_thresholds import RobustSettings
from hermes.jobs.detect.ranksum import Floats, autocorrelation_time, mean, middle, rank_sum_z
from hermes.jobs.detect.turns import by_turns
from hermes.jobs.detect.warmup import Aside

_FASTER_Z = 6.0
_WARM_UP = 400
_LONG = 80
_EARLY = 20
_EARLY_RATIO = 1.15
_LEFT_OUT = sum(FLAGS[name] for name in ("first", "profiled", "checkpoint", "evaluation", "foreign_profiler"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What the steps were like before an alarm: times by work, numbers and work; `length`: of the slow stretch."""

    kind: AlarmKind
    length: int
    columns: tuple[Floats, npt.NDArray[np.int64], Floats]


class Robust:
    """Detector of one rank. Costs some microseconds a step on average, in the watching process."""

    needs_work = True

    def __init__(self, rank: int, settings: RobustSettings | None = None) -> None:
        self._rank = rank
        self._settings = settings or RobustSettings()
        self._keep = self._settings.most_reference + 2 * max(self._settings.windows)
        self._begin()

    def _begin(self) -> None:
        """As at the start of a job: nothing is known."""
        self._aside = Aside()
        self._before: _Before | None = None
        self._start: list[float] = []
        self._period = 0
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
        """Typical time of a step (of the reference, at the work of the latest steps); None while it is learnt."""
        if not self._fitted:
            return None
        return int(self._median * middle(self._work[max(self._count - 40, 0) : self._count]))

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """A step. Those that a capture, a checkpoint or an evaluation slows are left out."""
        if flags & (FLAGS["resumed"] | FLAGS["first"]):
            self._begin()
        if flags & _LEFT_OUT:
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
            # One alarm a step: what else was kept aside is of the same stretch.
            found = found or self._look()
        return found

    def _look(self) -> Alarm | None:
        settings, count = self._settings, self._count
        if self._before is not None and count % settings.every == 0 and (over := self._recovered(self._before)):
            return over
        if count < settings.least_reference:
            return None
        if self._due():
            self._fit()
            if self._start:
                self._learn_start()
                # What is left may be too little.
                if not self._fitted:
                    return None
        found = self._spikes() or self._cusum() or (self._seldom() if count % settings.every == 0 else None)
        return self._raise(found) if found else None

    def _seldom(self) -> tuple[AlarmKind, int, float] | None:
        """What is looked for every few steps only."""
        if self._work_changed():
            self._restart()
            self._before = None
            return None
        return None if self._faster() else self._early() or self._windows() or self._turns()

    def _raise(self, found: tuple[AlarmKind, int, float]) -> Alarm:
        """The alarm; what was the reference is kept until the steps have recovered."""
        alarm = self._alarm(*found)
        if self._before is None:
            size = max(min(self._reference_size(found[1]), self._count - found[1]), 0)
            columns = (self._values[:size].copy(), self._steps[:size].copy(), self._work[:size].copy())
            self._before = _Before(kind=alarm.kind, length=found[1], columns=columns)
        # What comes now is compared with what is now: the level that was alarmed about is not alarmed about again.
        self._restart()
        return alarm

    def _learn_start(self) -> None:
        """How long the job's first steps were slow: later stretches as long are no news. They leave the reference."""
        start, self._start = self._start, []
        first = np.concatenate([start, self._values[: self._count]])
        # Epochs may be so short that much of this is warm-up: the fast half tells what is usual.
        fastest = np.sort(first)[: len(first) // 2]
        usual = float(fastest[-len(fastest) // 3])
        limit = 1.25 * usual + 5 * 1.4826 * float(np.median(np.abs(fastest - np.median(fastest))))
        fast = np.flatnonzero(first <= limit)
        # Two fast steps in a row end a warm-up.
        ends = fast[np.flatnonzero(np.diff(fast) == 1)] if len(fast) > 1 else fast
        length = int(ends[0]) if len(ends) else len(first)
        if length >= len(first) // 2:
            return
        self._aside.learn(length)
        if (inside := length - len(start)) > 0:
            self._rebase(self._count - inside)

    def _recovered(self, before: _Before) -> Alarm | None:
        """The latest steps are as they were before the alarm: what was the reference then is it again."""
        window = 100 if before.kind is AlarmKind.TURNS else 40
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
        """Slow from soon after the start on: the reference itself falls into two parts, the second above the first."""
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
        # As long as the job's first steps were slow a stretch is no news.
        if count - split <= self._aside.allowed or not split:
            return None
        first, then = values[:split], values[split:]
        apart = float(np.quantile(then, 0.1)) >= _EARLY_RATIO * float(np.quantile(first, 0.9))
        score /= math.sqrt(autocorrelation_time(np.concatenate([first / np.median(first), then / np.median(then)])))
        return (AlarmKind.SHIFT, count - split, score) if score >= settings.z or apart else None

    def _turns(self) -> tuple[AlarmKind, int, float] | None:
        if self._count % (4 * self._settings.every):
            return None
        found = by_turns(self._values[: self._count], self._settings.most_reference)
        self._period = found.period if found else 0
        return (AlarmKind.TURNS, found.length, found.score) if found else None

    def _compared(self, window: int) -> tuple[AlarmKind, int, float] | None:
        """Whether the last `window` steps lie above the reference: how, for how many steps, and the score."""
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
        """A lasting change of batch size is a new job: times of a step at another size do not compare."""
        if self._count < self._settings.least_reference + 40:
            return False
        now = self._work[self._count - 40 : self._count]
        then = np.sort(self._work[: self._settings.least_reference])
        if abs(middle(now) / float(then[len(then) // 2]) - 1) <= self._settings.work_change:
            return False
        # Lengths of texts differ from step to step, and forty of them in their median too.
        return abs(rank_sum_z(then, now)) >= _FASTER_Z

    def _alarm(self, kind: AlarmKind, length: int, score: float) -> Alarm:
        recent = slice(self._count - length, self._count)
        work = middle(self._work[recent])
        before, after = self._median, middle(self._values[recent])
        if kind is AlarmKind.TURNS:
            before = mean(self._values[: self._reference_size(length)])
            after = mean(self._values[recent])
        elif length >= self._count - self._settings.least_reference:
            before = middle(self._values[: self._count - length])
        return Alarm(
            rank=self._rank, kind=kind, step=int(self._steps[self._count - 1]),
            since=int(self._steps[self._count - length]), before_ns=int(before * work),
            after_ns=int(after * work), score=score, period=self._period if kind is AlarmKind.TURNS else 0,
        )  # fmt: skip
