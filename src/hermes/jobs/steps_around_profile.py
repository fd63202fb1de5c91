"""Use case: the step log of the job that a profile belongs to: where steps changed, and which were captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hermes.base.errors import HermesError
from hermes.inside.wire.rundir import JOB_FILE
from hermes.jobs.alarms_in_step_log import explained
from hermes.jobs.detect.alarm import Alarm
from hermes.jobs.detect.causes import Cause
from hermes.jobs.detect.read_step_logs import Steps, from_walls, read_steps
from hermes.jobs.detect.replay_detector import detect, detector_of

_PRESET = "robust"
_ABOVE = 8
"""Largest number of folders between a run directory and a rank's part of a capture."""
_POINTS = 600
_MOST_WATCHED = 300_000
"""Largest number of records that are searched for changes: a page waits for the search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to slower steps: the alarm, and its cause, if one thing grew."""

    alarm: Alarm
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSteps:
    """The step log of a job, as points: a first step, and the least, median and most ns of all ranks up to the next
    point.

    `captured` are half-open stretches of steps that ran under a profiler.
    """

    folder: Path
    ranks: int
    steps: int
    points: tuple[tuple[int, int, int, int], ...]
    captured: tuple[tuple[int, int], ...]
    changes: tuple[Change, ...]


def run_folder(paths: Sequence[Path]) -> Path | None:
    """The run directory that contains one of these paths, if it has step logs."""
    for path in paths:
        whole = path.absolute()
        for folder in (whole, *list(whole.parents)[:_ABOVE]):
            if (folder / JOB_FILE).is_file() and any(folder.glob("steps-rank*.log")):
                return folder
    return None


def logged(paths: Sequence[Path], environment: Mapping[str, str]) -> LoggedSteps | None:
    """The step log of the job in whose run directory a profile lies; None without a readable log."""
    folder = run_folder(paths)
    if folder is None:
        return None
    try:
        ranks = read_steps(folder)
    except (HermesError, OSError):
        return None
    if not any(map(len, ranks)):
        return None
    captured = sorted({stretch for steps in ranks for stretch in _captured(steps)})
    watched = ranks if sum(map(len, ranks)) <= _MOST_WATCHED else []
    found = [
        Change(alarm=one.alarm, cause=one.cause)
        for one in explained(watched, lambda rank: detector_of(_PRESET, rank, environment))
    ]
    return LoggedSteps(
        folder=folder, ranks=len(ranks), steps=max(map(len, ranks)), points=_points(ranks), captured=tuple(captured),
        changes=tuple(sorted(found, key=lambda one: (one.alarm.since, one.alarm.rank))),
    )  # fmt: skip


def changes(walls: Mapping[int, Sequence[tuple[int, int]]], environment: Mapping[str, str]) -> tuple[Change, ...]:
    """Where the steps of a profile became slower, by the detection of step logs; `walls` holds step and time (ns) by
    rank."""
    found: list[Alarm] = []
    for rank, own in sorted(walls.items()):
        ordered = sorted(own)
        steps = from_walls([ns for _, ns in ordered], rank=rank, step=[step for step, _ in ordered])
        found += detect(steps, lambda number: detector_of(_PRESET, number, environment))
    return tuple(Change(alarm=alarm) for alarm in sorted(found, key=lambda one: (one.since, one.rank)))


def _captured(steps: Steps) -> Iterator[tuple[int, int]]:
    """Half-open stretches of a rank's steps that ran under a profiler."""
    mine = steps.columns["step"][steps.flagged("profiled", "foreign_profiler")]
    if len(mine):
        for run in np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1):
            yield int(run[0]), int(run[-1]) + 1


def _points(ranks: Sequence[Steps]) -> tuple[tuple[int, int, int, int], ...]:
    number = np.concatenate([steps.columns["step"] for steps in ranks])
    wall = np.concatenate([steps.columns["wall_ns"] for steps in ranks])
    known = wall >= 0
    number, wall = number[known], wall[known]
    if not len(number):
        return ()
    width = max(1, -(-int(number.max() - number.min() + 1) // _POINTS))
    place = (number - number.min()) // width
    order = np.lexsort((wall, place))
    place, wall = place[order], wall[order]
    first = np.flatnonzero(np.append(True, np.diff(place) != 0))
    last = np.append(first[1:], len(place)) - 1
    return tuple(
        (int(number.min() + place[a] * width), int(wall[a]), int(wall[(a + b) // 2]), int(wall[b]))
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    )
