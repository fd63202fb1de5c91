"""The rows of a job's past: steps by day, slower steps, stragglers and captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hermes.base.message import Message, Text, Word
from hermes.jobs.detect.causes import Spent

DAY_NS = 86_400 * 10**9
_FINE = 1.0025
_BINS = 12_000
"""Number of bins: they span 1 us to more than a year, each a quarter of a percent wider than the one before."""


class CaptureHow(Word):
    """The origin of a capture: a watcher, a user, or a watcher without a rank that accepted it."""

    AUTO = "auto"
    MANUAL = "manual"
    REFUSED = "refused"


class StepTimes:
    """Step times as counts in fine bins: counts of many hosts can be added, and no single step is stored."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(_BINS, dtype=np.int64)

    def add(self, walls_ns: npt.NDArray[np.int64]) -> None:
        """Count the steps with these times in ns."""
        place = np.log(np.maximum(walls_ns, 1_000) / 1_000) / np.log(_FINE)
        self._counts += np.bincount(np.minimum(place.astype(np.int64), _BINS - 1), minlength=_BINS)

    def take(self, other: StepTimes) -> None:
        """Add the counts of another host's or rank's `StepTimes`."""
        self._counts += other._counts

    def quantile(self, part: float) -> int | None:
        """The time in ns that this part of the steps does not exceed, to a quarter of a percent; None without steps."""
        total = int(self._counts.sum())
        if not total:
            return None
        at = int(np.searchsorted(np.cumsum(self._counts), max(part * total, 1)))
        return round(1_000 * float(_FINE ** (at + 0.5)))


@dataclass(slots=True, kw_only=True)
class JobDay:
    """The steps of one job on one day of UTC, counted from 1970.

    `trained_ns` is the total time of the steps, on the rank with the most; `lost_ns` is how much longer than usual they
    took.
    """

    day: int
    steps: int = 0
    trained_ns: int = 0
    lost_ns: int = 0
    walls: StepTimes = field(default_factory=StepTimes)


@dataclass(slots=True, kw_only=True)
class SlowSteps:
    """A period in which a job's steps were slower, ended nowhere, or had wrong numbers; times are ns since 1970.

    `lost` is the lost time in ns by day; empty if unknown. `over` is False where the period lasted to the job's end.
    """

    kind: Word
    host: str
    ranks: tuple[int, ...]
    since_ns: int
    until_ns: int
    said: Text
    over: bool = False
    step: int | None = None
    cause: Spent | None = None
    before_ns: int | None = None
    after_ns: int | None = None
    lost: Mapping[int, int] = field(default_factory=dict)

    @property
    def lost_ns(self) -> int | None:
        """The lost time in ns of the whole period."""
        return sum(self.lost.values()) if self.lost else None


@dataclass(slots=True, kw_only=True)
class LateRank:
    """A rank that the others of its job waited for; `waited_ns` is the wait of each other rank in all."""

    host: str
    rank: int
    since_ns: int
    until_ns: int
    own_ns: int | None
    others_ns: int | None
    waited_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCapture:
    """A capture: its origin, its steps, the result of its analysis, and the page of the analysis."""

    host: str
    at_ns: int
    how: CaptureHow
    start_step: int | None = None
    steps: int | None = None
    ranks: int | None = None
    found: Text | None = None
    report: Path | None = None


@dataclass(slots=True, kw_only=True)
class PastJob:
    """The past of a job on one host. `launch` is the launcher's name of the job on all hosts; empty without one.

    `notes` say what could not be read. `first_ns` and `last_ns` are when the job's first and last step ended.
    """

    job: str
    launch: str
    host: str
    ranks: int
    first_ns: int
    last_ns: int
    days: dict[int, JobDay] = field(default_factory=dict)
    slow: list[SlowSteps] = field(default_factory=list)
    late: list[LateRank] = field(default_factory=list)
    captures: list[PastCapture] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)
