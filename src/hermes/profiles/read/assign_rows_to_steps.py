"""Assigns rows to steps: host rows by the clock, device rows by the call that launched them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

_Ints = NDArray[np.int64]


def own_host(step: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with `step`: the number of the mark in the table `step` that contains `start_ns`, else null."""
    marks = _Marks(step)
    return rows.with_columns(_numbered(marks, marks.holding(rows["start_ns"].to_numpy())))


def own_device(step: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` of a device with `step`, since devices lag behind the host.

    A row with `launch_ns` belongs to the step that launched it. A row without a launch goes by device order, to the
    step whose first launched row starts at or before it. The step reaches to the later of its last row and its end on
    the host. If no row has a launch, the mark that contains `start_ns` decides.
    """
    marks = _Marks(step)
    starts = rows["start_ns"].to_numpy()
    launched = (
        rows["launch_ns"].is_not_null().to_numpy() if "launch_ns" in rows.columns else np.zeros(len(starts), bool)
    )
    if not launched.any():
        return rows.with_columns(_numbered(marks, marks.holding(starts)))
    owner = np.full(len(starts), -1, dtype=np.int64)
    owner[launched] = marks.holding(rows["launch_ns"].fill_null(0).to_numpy()[launched])
    ends = starts + rows["dur_ns"].to_numpy()
    orphans = ~launched
    owner[orphans] = marks.by_device_order(owner[launched], starts[launched], ends[launched], starts[orphans])
    return rows.with_columns(_numbered(marks, owner))


class _Marks:
    """The step marks of one rank, by start."""

    def __init__(self, step: pl.DataFrame) -> None:
        step = step.sort("start_ns")
        self.numbers = step["step"]
        self.starts = step["start_ns"].to_numpy()
        self.ends = self.starts + step["dur_ns"].to_numpy()

    def holding(self, moments: _Ints) -> _Ints:
        """The index of the mark that contains each moment, or -1."""
        if not len(self.starts):
            return np.full(len(moments), -1, dtype=np.int64)
        index = np.searchsorted(self.starts, moments, side="right") - 1
        inside = (index >= 0) & (moments < self.ends[np.maximum(index, 0)])
        return np.where(inside, index, -1).astype(np.int64)

    def by_device_order(self, owner: _Ints, starts: _Ints, ends: _Ints, moments: _Ints) -> _Ints:
        """The index of the step whose stretch of device time contains each moment, or -1."""
        known = owner >= 0
        firsts = np.full(len(self.starts), np.iinfo(np.int64).max, dtype=np.int64)
        lasts = self.ends.copy()
        np.minimum.at(firsts, owner[known], starts[known])
        np.maximum.at(lasts, owner[known], ends[known])
        # A step that launched nothing starts on the device when it starts on the host.
        firsts = np.where(firsts == np.iinfo(np.int64).max, self.starts, firsts)
        order = np.argsort(firsts, kind="stable")
        if not len(order):
            return np.full(len(moments), -1, dtype=np.int64)
        place = np.searchsorted(firsts[order], moments, side="right") - 1
        index = order[np.maximum(place, 0)]
        return np.where((place >= 0) & (moments < lasts[index]), index, -1).astype(np.int64)


def _numbered(marks: _Marks, index: _Ints) -> pl.Series:
    places = pl.Series(index)
    return marks.numbers.gather(places.set(places < 0, None)).alias("step")
