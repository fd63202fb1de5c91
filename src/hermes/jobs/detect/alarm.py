"""The alarm that a detector raises for a rank's steps, and the interface of detectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hermes.base.message import Word


class AlarmKind(Word):
    """How the steps of a rank changed.

    `spikes`: a few steps in a row far above all others. `shift`: a lasting change. `drift`: a growing change. `turns`:
    single slow steps. `recovered`: the steps are as they were before.
    """

    SPIKES = "spikes"
    SHIFT = "shift"
    DRIFT = "drift"
    TURNS = "turns"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm: steps of a rank have become slower, or single steps every `period` steps (0: unevenly).

    `step` is the step at which the change was noticed, `since` the step where it probably began. `before_ns` and
    `after_ns` are typical times of a step; for `turns` they are means. `score` is in standard deviations of the
    compared value; for `turns` it is minus the logarithm of the probability of chance.
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
        """The typical step time after the change, divided by the time before."""
        return self.after_ns / max(self.before_ns, 1)


class Detector(Protocol):
    """A detector that gets one step after the other and keeps bounded state. `needs_work`: times are divided by the
    work."""

    needs_work: bool

    @property
    def slow(self) -> bool:
        """Whether an alarm was raised that is not over."""

    def feed(self, step: int, wall_ns: int, work: int, flags: int) -> Alarm | None:
        """Take a step, with its tokens, samples or batches as `work` (0: unknown), and its flags; returns an alarm or
        None."""
