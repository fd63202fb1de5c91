"""Use case: a step log in; alarms, their causes, and what costs time throughout, out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermes.base.errors import InputError
from hermes.inside.wire.rundir import JOB_FILE, default_root
from hermes.jobs.detect.alarm import Alarm, Detector
from hermes.jobs.detect.causes import Cause, what_costs
from hermes.jobs.detect.detect import detector_of
from hermes.jobs.detect.job import replay
from hermes.jobs.detect.messages import NO_STEPS_IN_LOG
from hermes.jobs.detect.numerics import Wrong
from hermes.jobs.detect.numerics import replay as replay_numbers
from hermes.jobs.detect.read_step_logs import Steps, read_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An alarm, what grew, if one thing did, on which ranks it was seen, and the step from which on it was over."""

    alarm: Alarm
    cause: Cause | None
    ranks: tuple[int, ...] = ()
    over: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What a log says: its ranks, one alarm a cause, and the causes that cost time throughout."""

    path: Path
    preset: str
    ranks: tuple[Steps, ...]
    alarms: tuple[Explained, ...]
    causes: tuple[Cause, ...]
    wrong: tuple[Wrong, ...] = ()
    """What went wrong with loss and gradients, where the run directory tells."""


def detect_in(path: Path, *, preset: str, environment: Mapping[str, str]) -> Detection:
    """Replay a log, or all logs of a run directory. A path that is not there is looked for among the jobs.

    Raises `HermesError`.
    """
    path = find(path, environment)
    ranks = read_steps(path)
    if not any(len(steps) for steps in ranks):
        raise InputError(NO_STEPS_IN_LOG, where=str(path))
    alarms = explained(ranks, lambda rank: detector_of(preset, rank, environment))
    wrong = replay_numbers(path if path.is_dir() else path.parent, [steps.rank for steps in ranks])
    return Detection(
        path=path, preset=preset, ranks=tuple(ranks), alarms=alarms, causes=what_costs(ranks), wrong=tuple(wrong)
    )  # fmt: skip


def explained(ranks: Sequence[Steps], make: Callable[[int], Detector]) -> tuple[Explained, ...]:
    """The alarms of a job whose logs are there, as a watcher of it says them."""
    found: list[Explained] = []
    for notice in replay([steps for steps in ranks if len(steps)], make):
        if notice.kind == "alarm" and notice.alarm is not None:
            found.append(Explained(alarm=notice.alarm, cause=notice.cause, ranks=notice.ranks))
        elif notice.kind == "recovered" and found:
            found[-1] = replace(found[-1], over=notice.since)
    return tuple(found)


def find(path: Path, environment: Mapping[str, str]) -> Path:
    """The path itself if it is there, else the run directory of the job with that name."""
    if path.exists() or os.sep in str(path):
        return path
    folder = default_root(environment) / path
    return folder if (folder / JOB_FILE).exists() else path
