"""Use case: a step log in; alarms, their causes, and what costs time throughout, out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hermes.base.errors import InputError
from hermes.diagnose.live import Cause, what_costs, why_slower
from hermes.fleet.alarm import Alarm
from hermes.fleet.detect import detect, detector_of
from hermes.fleet.steps import Steps, read_steps
from hermes.live.rundir import JOB_FILE, default_root

_AROUND = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An alarm, and what grew, if one thing did."""

    alarm: Alarm
    cause: Cause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What a log says: its ranks, every alarm, and the causes that cost time throughout."""

    ranks: tuple[Steps, ...]
    alarms: tuple[Explained, ...]
    causes: tuple[Cause, ...]


def detect_in(path: Path, *, preset: str, environment: Mapping[str, str]) -> Detection:
    """Replay a log, or all logs of a run directory. A path that is not there is looked for among the jobs.

    Raises `HermesError`.
    """
    ranks = read_steps(find(path, environment))
    if not any(len(steps) for steps in ranks):
        raise InputError("the log holds no steps", where=str(path))
    alarms = [
        Explained(alarm=alarm, cause=cause_of(steps, alarm))
        for steps in ranks
        for alarm in detect(steps, lambda rank: detector_of(preset, rank, environment))
    ]
    ordered = sorted(alarms, key=lambda one: (one.alarm.step, one.alarm.rank))
    return Detection(ranks=tuple(ranks), alarms=tuple(ordered), causes=what_costs(ranks))


def find(path: Path, environment: Mapping[str, str]) -> Path:
    """The path itself if it is there, else the run directory of the job with that name."""
    if path.exists() or os.sep in str(path):
        return path
    folder = default_root(environment) / path
    return folder if (folder / JOB_FILE).exists() else path


def cause_of(steps: Steps, alarm: Alarm) -> Cause | None:
    """What grew from the steps before the alarm's begin to those from there until it was noticed."""
    numbers = steps.columns["step"]
    begin = int(np.searchsorted(numbers, alarm.since))
    end = int(np.searchsorted(numbers, alarm.step, side="right"))
    usable = ~steps.flagged("first", "profiled", "foreign_profiler")
    before = _usable(steps, usable, max(begin - _AROUND, 0), begin)
    after = _usable(steps, usable, begin, end)
    return why_slower(before, after) if len(before) and len(after) else None


def _usable(steps: Steps, mask: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int, end: int) -> Steps:
    rows = np.flatnonzero(mask[first:end]) + first
    columns = {name: column[rows] for name, column in steps.columns.items()}
    return Steps(rank=steps.rank, columns=columns, about=steps.about)


def ranks_text(ranks: Sequence[Steps]) -> str:
    """How many steps of which ranks."""
    count = sum(map(len, ranks))
    return f"{count} steps of {len(ranks)} rank{'s' if len(ranks) != 1 else ''}"
