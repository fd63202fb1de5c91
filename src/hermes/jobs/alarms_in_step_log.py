"""Use case: read step logs, and return alarms, their causes, and the causes that cost time throughout."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.base.errors import InputError
from hermes.inside.wire.rundir import JOB_FILE, default_root
from hermes.jobs.detect.alarm import Alarm, Detector
from hermes.jobs.detect.causes import Cause, what_costs
from hermes.jobs.detect.job_alarms import replay
from hermes.jobs.detect.lost_time import LostTime
from hermes.jobs.detect.messages import NO_STEPS_IN_LOG
from hermes.jobs.detect.numeric_faults import NumericFault
from hermes.jobs.detect.numeric_faults import replay as replay_numbers
from hermes.jobs.detect.read_step_logs import Steps, read_steps
from hermes.jobs.detect.replay_detector import detector_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedAlarm:
    """An alarm of a job: its cause, if one thing grew, the ranks that showed it, and the step from which on it was
    over."""

    alarm: Alarm
    cause: Cause | None
    ranks: tuple[int, ...] = ()
    over: int | None = None
    lost: LostTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The result for a log: its ranks, one alarm for each cause, and the causes that cost time throughout."""

    path: Path
    preset: str
    ranks: tuple[Steps, ...]
    alarms: tuple[ExplainedAlarm, ...]
    causes: tuple[Cause, ...]
    wrong: tuple[NumericFault, ...] = ()
    """Faults of loss and gradients, if the run directory holds their numbers."""


def detect_in(path: Path, *, preset: str, environment: Mapping[str, str]) -> Detection:
    """Detect alarms in a log, or in all logs of a run directory. A missing path is looked up as the name of a job.

    Raises `HermesError`.
    """
    path = find_log(path, environment)
    ranks = read_steps(path)
    if not any(len(steps) for steps in ranks):
        raise InputError(NO_STEPS_IN_LOG, where=str(path))
    alarms = explained(ranks, lambda rank: detector_of(preset, rank, environment))
    wrong = replay_numbers(path if path.is_dir() else path.parent, [steps.rank for steps in ranks])
    return Detection(
        path=path, preset=preset, ranks=tuple(ranks), alarms=alarms, causes=what_costs(ranks), wrong=tuple(wrong)
    )  # fmt: skip


def explained(ranks: Sequence[Steps], make: Callable[[int], Detector]) -> tuple[ExplainedAlarm, ...]:
    """The alarms of a job whose logs are complete, as a watcher of the running job would raise them."""
    found: list[ExplainedAlarm] = []
    for notice in replay([steps for steps in ranks if len(steps)], make):
        if notice.kind == "alarm" and notice.alarm is not None:
            found.append(ExplainedAlarm(alarm=notice.alarm, cause=notice.cause, ranks=notice.ranks, lost=notice.lost))
        elif notice.kind == "recovered" and found:
            found[-1] = replace(found[-1], over=notice.since, lost=notice.lost or found[-1].lost)
    return tuple(found)


def find_log(path: Path, environment: Mapping[str, str]) -> Path:
    """The path itself if it exists, else the run directory of the job with that name."""
    if path.exists() or os.sep in str(path):
        return path
    folder = default_root(environment) / path
    return folder if (folder / JOB_FILE).exists() else path
