"""Finds step windows: where each step begins and ends, and which device work belongs to it.

docs/decisions/0003 says why. `model/typical_step.py` defines which step stands for a rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import polars as pl

from hermes.knowledge.vendor_traits import traits
from hermes.model.tables.unmarked_steps import FOUND
from hermes.profiles.measure.steps.capture_extent import Extent, is_marked
from hermes.profiles.measure.steps.device_work import DeviceWork, work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """The half-open window of one step in ns, and the device work in it.

    `step` is None for a capture without marks, and 1 where a reader marked the capture of a host alone as a whole.
    `mark` is the host's mark, `first_ns` the first task that counts for the step; `work` is None if no device was
    recorded.
    """

    step: int | None
    kind: Literal["device", "host", "found", "capture"]
    start_ns: int
    end_ns: int
    work: DeviceWork | None
    mark: tuple[int, int] | None = None
    first_ns: int | None = None


def step_windows(
    vendor: str, step: pl.DataFrame, tasks: pl.DataFrame, extent: Callable[[], Extent | None]
) -> Iterator[StepWindow]:
    """The steps of one rank, in order; one step, as long as the `extent`, for a capture without marks.

    On Ascend a step's window is the device's, and holds the work that the step launched. On other devices it is the
    host's mark, and holds what the device did in that time.
    """
    of_device = traits(vendor).window == "device"
    if not is_marked(step) and not (of_device and tasks["step"].null_count() < tasks.height):
        return _capture(step, tasks, extent())
    return _of_device(step, tasks) if of_device else _of_host(step, tasks)


def tasks_by_step(tasks: pl.DataFrame) -> Iterator[tuple[int | None, pl.DataFrame]]:
    """The rows of each step, in step order; if no row has a step, all rows under None."""
    parts = tasks.partition_by("step", as_dict=True)
    numbers = sorted(number for (number,) in parts if number is not None)
    for number in numbers or ([None] if tasks.height else []):
        yield number, parts[(number,)]


def _capture(step: pl.DataFrame, tasks: pl.DataFrame, extent: Extent | None) -> Iterator[StepWindow]:
    if extent:
        number, start, length = step.select("step", "start_ns", "dur_ns").row(0) if step.height else (None, 0, 0)
        work = work_of(tasks)
        yield StepWindow(
            step=number, kind="capture", start_ns=extent[0], end_ns=extent[1],
            work=work if tasks.height else None, mark=(start, start + length) if step.height else None,
            first_ns=work.span[0] if work.span else None,
        )  # fmt: skip


def _of_device(step: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[StepWindow]:
    marks = {
        number: (start, start + length)
        for number, start, length in step.select("step", "start_ns", "dur_ns").iter_rows()
    }
    owned = dict(tasks_by_step(tasks))
    for number in sorted({*marks, *(number for number in owned if number is not None)}):
        mark = marks.get(number)
        work = work_of(owned[number]) if number in owned else DeviceWork()
        if work.span:
            start, end = work.span
            yield StepWindow(
                step=number, kind="device", start_ns=start, end_ns=end, work=work, mark=mark, first_ns=start
            )
        elif mark:
            told = work if tasks.height else None
            yield StepWindow(step=number, kind="host", start_ns=mark[0], end_ns=mark[1], work=told, mark=mark)


def _of_host(step: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[StepWindow]:
    work = work_of(tasks)
    busy = work.compute | work.comm | work.copy
    rows = step.sort("start_ns").select("step", "start_ns", "dur_ns", "name")
    for number, start, length, name in rows.iter_rows():
        mark = (start, start + length)
        # Device work for the step before counts in the window, and so does not count as preparing.
        inside = busy.clip(*mark).span
        yield StepWindow(
            step=number,
            kind="found" if str(name).startswith(FOUND) else "host",
            start_ns=mark[0],
            end_ns=mark[1],
            work=work if tasks.height else None,
            mark=mark,
            first_ns=inside[0] if inside else None,
        )
