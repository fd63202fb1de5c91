"""Finds the steps of a rank: each runs from the end of the step before to the end of its own last task.

Time between two marks of the host belongs to the step that follows. The split of steps and the time tree both take
their steps from here: see docs/tree.md and docs/decisions/0052. `model/typical_step.py` defines which step stands for
a rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.profiles.measure.steps.capture_extent import Extent, is_marked
from hermes.profiles.measure.steps.device_work import NONE, DeviceTasks

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Steps in order, each from the end of the step before; `step` is the number that the framework gave it, or -1."""

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


def windows_of(step: pl.DataFrame, tasks: DeviceTasks, extent: Callable[[], Extent | None]) -> Windows:
    """The steps of a rank; none if nothing was recorded.

    A capture without marks is one step, as long as its `extent`, unless its tasks name their steps. In a capture
    without a device, a step lasts from its mark to the next mark.
    """
    if is_marked(step):
        marks = step.sort("start_ns").select("step", "start_ns", "dur_ns")
        return _of_device(marks, tasks) if len(tasks) else _of_host(marks)
    named = tasks.step[tasks.step != NONE]
    if step.height or not len(named):
        return _whole(extent())
    return _of_numbers(np.unique(named), tasks)


def _whole(extent: Extent | None) -> Windows:
    number, start, end = np.array([(NONE, *extent)] if extent else [], dtype=np.int64).reshape(-1, 3).T
    return Windows(step=number, start=start, end=end)


def _of_host(marks: pl.DataFrame) -> Windows:
    start = marks["start_ns"].to_numpy()
    ends = np.append(start[1:], start[-1:] + marks["dur_ns"].to_numpy()[-1:])
    return _lasting(marks["step"].to_numpy(), start, ends)


def _of_device(marks: pl.DataFrame, tasks: DeviceTasks) -> Windows:
    """The steps of marked device work: a task belongs to the last mark before its launch, else before its start.

    Where no launch was recorded, the step that the reader gave to a task counts before its position.
    """
    known = tasks.launch_ns != NONE
    if not known.any() and (tasks.step != NONE).any():
        own = _places(marks["step"].to_numpy(), tasks.step)
    else:
        own = np.searchsorted(marks["start_ns"], np.where(known, tasks.launch_ns, tasks.start), side="right") - 1
    with_work, ends = _ends(own, tasks, marks.height)
    if not len(with_work):
        return _whole(None)
    first = int(with_work[0])
    # If only the device was recorded, a mark may be far from its tasks (another clock).
    begun = int(tasks.start[own == first].min())
    before = tasks.end[(own < first) & (tasks.start < begun)]
    begin = min(max(int(marks["start_ns"][first]), int(before.max(initial=_NEVER))), begun)
    return _lasting(marks["step"].to_numpy()[with_work], np.append([begin], ends[:-1]), ends)


def _of_numbers(numbers: Ints, tasks: DeviceTasks) -> Windows:
    """The steps of device work that names its steps, where no mark was recorded: the first begins with its work."""
    own = _places(numbers, tasks.step)
    with_work, ends = _ends(own, tasks, len(numbers))
    begin = tasks.start[own == with_work[0]].min()
    return _lasting(numbers[with_work], np.append([begin], ends[:-1]), ends)


def _places(numbers: Ints, wanted: Ints) -> Ints:
    """The place of each wanted number among `numbers`; -1 where there is none."""
    order = np.argsort(numbers, kind="stable")
    at = order[np.minimum(np.searchsorted(numbers, wanted, sorter=order), len(order) - 1)]
    return np.where(numbers[at] == wanted, at, NONE)


def _ends(own: Ints, tasks: DeviceTasks, count: int) -> tuple[Ints, Ints]:
    """The places of the steps that own work, and the ends of their last tasks, none before the step before."""
    last = np.full(count, _NEVER, dtype=np.int64)
    good = own >= 0
    np.maximum.at(last, own[good], tasks.end[good])
    with_work = np.flatnonzero(last > _NEVER)
    return with_work, np.maximum.accumulate(last[with_work])


def _lasting(step: Ints, start: Ints, end: Ints) -> Windows:
    """The steps of some length."""
    some = end > start
    return Windows(step=step[some], start=start[some], end=end[some])
