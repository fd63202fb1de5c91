"""The step windows of the time tree: each runs from the end of the step before to the end of its own last task.

Time between two marks of the host belongs to the step that follows. See docs/tree.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.profiles.measure.leaves.nesting import NONE, Ints
from hermes.profiles.measure.leaves.tasks import Tasks
from hermes.profiles.measure.steps.capture_extent import Extent, is_marked


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Steps in order, each from the end of the step before. `step` is the number the framework gave, or -1."""

    step: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Ints:
        """The length of each step in ns."""
        return np.asarray(self.end - self.start, dtype=np.int64)

    def of(self, moments: Ints) -> Ints:
        """The index of the step that each moment lies in; the last step for later moments."""
        return np.clip(np.searchsorted(self.start, moments, side="right") - 1, 0, len(self) - 1)


_NO_STEPS = Windows(
    step=np.zeros(0, dtype=np.int64), start=np.zeros(0, dtype=np.int64), end=np.zeros(0, dtype=np.int64)
)


def windows_of(step: pl.DataFrame, tasks: Tasks, extent: Callable[[], Extent | None]) -> Windows:
    """The steps of a rank; none if nothing was recorded. An unmarked capture is one step, as long as its `extent`."""
    if not is_marked(step):
        return _whole(extent())
    marks = step.sort("start_ns").select("step", "start_ns", "dur_ns")
    return _of_device(marks, tasks) if len(tasks) else _of_host(marks)


def _of_host(marks: pl.DataFrame) -> Windows:
    start = marks["start_ns"].to_numpy()
    end = np.append(start[1:], start[-1:] + marks["dur_ns"].to_numpy()[-1:])
    whole = end > start
    return Windows(step=marks["step"].to_numpy()[whole], start=start[whole], end=end[whole])


def _whole(extent: Extent | None) -> Windows:
    if extent is None:
        return _NO_STEPS
    step, start, end = (np.array([value], dtype=np.int64) for value in (NONE, *extent))
    return Windows(step=step, start=start, end=end)


def _of_device(marks: pl.DataFrame, tasks: Tasks) -> Windows:
    """The steps of marked device work: a task belongs to the last mark before its launch, else before its start."""
    begun = marks["start_ns"].to_numpy()
    known = tasks.call_ns != NONE
    moment = np.where(known, tasks.call_ns, tasks.start)
    own = np.searchsorted(begun, moment, side="right") - 1
    # The step that a reader gives to tasks without a launch counts before their position.
    if not known.any() and (tasks.step != NONE).any():
        place = {int(number): at for at, number in enumerate(marks["step"].to_list())}
        own = np.array([place.get(int(one), NONE) for one in tasks.step.tolist()], dtype=np.int64)
    last = np.full(len(begun), np.iinfo(np.int64).min, dtype=np.int64)
    good = own >= 0
    np.maximum.at(last, own[good], tasks.end[good])
    with_work = np.flatnonzero(last > np.iinfo(np.int64).min)
    if not len(with_work):
        return _NO_STEPS
    ends = np.maximum.accumulate(last[with_work])
    first = _first(marks, tasks, own, int(with_work[0]))
    starts = np.append([first], ends[:-1])
    whole = ends > starts
    return Windows(step=marks["step"].to_numpy()[with_work][whole], start=starts[whole], end=ends[whole])


def _first(marks: pl.DataFrame, tasks: Tasks, own: Ints, place: int) -> int:
    """The begin of the first step in ns: its mark, or the end of earlier tasks that still run.

    If only the device was recorded, a mark may be far from its tasks (another clock): then the step begins with the
    first task.
    """
    mark = int(marks["start_ns"][place])
    before = tasks.end[own < place]
    begin = max(mark, int(before.max())) if len(before) else mark
    mine = tasks.start[own == place]
    return min(begin, int(mine.min()))
