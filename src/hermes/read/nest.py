"""Nesting of calls on a thread: depth and self time, for every reader alike."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.tables import RUNTIME_KINDS

_Integers = NDArray[np.int64]

_NEVER = 2**64
# Below so many rows of a lane the walk is quicker than to set the arrays up.
_FEW = 256
_EXACT = 2**53
"""Up to here sums of doubles are exact."""


def nest(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows by start (longer first), with `op_id`, `depth` and `self_ns`.

    Needs `kind`, `pid`, `tid`, `start_ns`, `dur_ns`; a column `tie` orders rows that are else equal,
        and is dropped. A row is inside another of its thread and layer when it
    starts before that one ends; the layers are the framework (with Python and its queues) and the runtime below, so
    that an operator's self time holds the runtime calls it makes, as profilers count it. Rounded times can make a
    child end a little after its parent: only the part inside is taken from the parent's self time. Linear after the
    sort.
    """
    # Only what decides is sorted; the wide rows are put into their order once.
    lane = pl.col("kind").is_in(RUNTIME_KINDS).alias("below")
    order = ["start_ns", "dur_ns", "pid", "tid", "below", *(["tie"] if "tie" in rows.columns else [])]
    narrow = rows.select(lane, *(name for name in order if name != "below")).with_row_index("place")
    narrow = narrow.sort(order, descending=[name == "dur_ns" for name in order], maintain_order=True)
    depth, own = _lanes(narrow)
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias("op_id")
    placed = rows.drop("tie", strict=False)[narrow["place"]]
    return placed.with_columns(pl.Series("depth", depth), pl.Series("self_ns", own), number)


def _lanes(rows: pl.DataFrame) -> tuple[_Integers, _Integers]:
    """Depth and self time of rows by start, longer first; each lane is nested by itself."""
    depth = np.zeros(rows.height, dtype=np.int64)
    own = rows["dur_ns"].to_numpy().copy()
    start = rows["start_ns"].to_numpy()
    lanes = rows.with_row_index("row").group_by("pid", "tid", "below", maintain_order=True).agg("row")["row"]
    for mine in (lane.to_numpy() for lane in lanes):
        depth[mine], own[mine] = _nested(start[mine], own[mine])
    return depth, own


def _nested(starts: _Integers, durations: _Integers) -> tuple[_Integers | list[int], _Integers | list[int]]:
    """Depth and self time of the rows of one lane."""
    found = None
    if len(starts) >= _FEW and durations.max() < _EXACT:
        found = _levels(starts, durations)
    return found or _walk(starts.tolist(), durations.tolist())


def _levels(starts: _Integers, durations: _Integers) -> tuple[_Integers, _Integers] | None:
    """As `_walk`, level by level; None where a row ends behind one that it began in.

    Where none does, the rows open at a start are those begun less those ended, and the last row one level up is the
    parent. The children of a parent do not overlap, so their sum is no more than its own time, and exact.
    """
    ends = starts + durations
    depth = np.arange(len(starts)) - np.searchsorted(np.sort(ends, kind="stable"), starts, side="right")
    empty = durations == 0
    if empty.any():
        # A row of no length ends where it starts: those from here on have not begun, and have not ended either.
        begun = np.cumsum(empty)
        depth += begun[np.searchsorted(starts, starts, side="right") - 1] - begun + empty
    # Numbers of 16 bits are sorted in linear time.
    by_depth = np.argsort(depth if depth.max() > np.iinfo(np.int16).max else depth.astype(np.int16), kind="stable")
    levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)
    own = durations.copy()
    for above, level in itertools.pairwise(levels):
        place = np.searchsorted(above, level) - 1
        if (ends[above[place]] < ends[level]).any():
            return None
        own[above] -= np.bincount(place, weights=durations[level], minlength=len(above)).astype(np.int64)
    return depth, own


def _walk(starts: list[int], durations: list[int]) -> tuple[list[int], list[int]]:
    """Depth and self time of the rows of one lane. The row behind the last, which never ends, encloses all."""
    depth: list[int] = []
    own = [*durations, 0]
    open_rows = [len(starts)]
    open_ends = [_NEVER]
    for row, (start, duration) in enumerate(zip(starts, durations, strict=True)):
        while open_ends[-1] <= start:
            open_ends.pop()
            open_rows.pop()
        end = start + duration
        above = open_ends[-1]
        own[open_rows[-1]] -= duration if end < above else above - start
        depth.append(len(open_rows) - 1)
        open_rows.append(row)
        open_ends.append(end)
    return depth, own[:-1]
