"""Makes detectors by preset, and runs one rank's steps through a detector."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.base.errors import QueryError
from hermes.jobs.detect.alarm import Alarm, Detector
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings
from hermes.jobs.detect.job_alarms import replay
from hermes.jobs.detect.ksigma import KSigma
from hermes.jobs.detect.messages import choices, no_preset
from hermes.jobs.detect.read_step_logs import Steps
from hermes.jobs.detect.robust_detector import Robust

PRESETS = ("robust", "ksigma")


def detector_of(preset: str, rank: int, environment: Mapping[str, str]) -> Detector:
    """A new detector for a preset; `ksigma` takes its thresholds from the environment. Raises `HermesError`."""
    if preset not in PRESETS:
        raise QueryError(no_preset(preset=preset), hint=choices(names=PRESETS))
    return KSigma(rank, KSigmaSettings.of(environment)) if preset == "ksigma" else Robust(rank)


def detect(steps: Steps, make: Callable[[int], Detector]) -> tuple[Alarm, ...]:
    """All alarms of one rank, in the order of its steps."""
    found = replay([steps], make) if len(steps) else []
    return tuple(one.alarm for one in found if one.kind in ("alarm", "again") and one.alarm is not None)
