"""Replays a rank's steps through a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hermes.base.errors import QueryError
from hermes.fleet.alarm import Alarm, Detector, KSigmaSettings
from hermes.fleet.ksigma import KSigma
from hermes.fleet.robust import Robust
from hermes.fleet.steps import Steps
from hermes.live.record import NULL

PRESETS = ("robust", "ksigma")


def detector_of(preset: str, rank: int, environment: Mapping[str, str]) -> Detector:
    """A new detector; `ksigma` takes its thresholds from the environment. Raises `HermesError`."""
    if preset not in PRESETS:
        raise QueryError(f"there is no preset {preset!r}", hint=", ".join(PRESETS))
    return KSigma(rank, KSigmaSettings.of(environment)) if preset == "ksigma" else Robust(rank)


def detect(steps: Steps, make: Callable[[int], Detector]) -> tuple[Alarm, ...]:
    """All alarms of one rank, in the order of its steps."""
    detector = make(steps.rank)
    columns = (steps.columns["step"], steps.columns["wall_ns"], work_of(steps), steps.columns["flags"])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(alarm for row in rows if (alarm := detector.feed(*row)))


def work_of(steps: Steps) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What each step worked on: tokens where they are known, else samples, else batches; 0 where nothing is."""
    chosen = np.zeros(len(steps), dtype=np.int64)
    for name in ("batches", "samples", "tokens"):
        column = steps.columns[name]
        # Mixed units would be no measure: a column counts only when every step has it.
        if len(column) and (column != NULL).all() and (column > 0).all():
            chosen = column
    return chosen
