"""Nests the calls of a thread: computes depth and self time, for every reader alike."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.model.tables import RUNTIME_KINDS

_Integers = NDArray[np.int64]

_NEVER = np.iinfo(np.int64).max
# With fewer rows, or a smaller share of leaves, a row-by-row walk is as fast.
_FEW = 256
_WORTH_PARTING = 8
# Each climb checks all leaves that are not placed yet: if hundreds of calls close at once, walking is better.
_MOST_CLIMBS = 64
_ROUNDED_NS = 2_000
"""The most ns by which a profiler's rounding makes a child outlast its parent."""


def nest(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows by start (longer first), with `op_id`, `depth` and `self_ns`.

    Needs `kind`, `pid`, `tid`, `start_ns`, `dur_ns`; a column `tie` orders rows that are else equal, and is dropped. A
        row is inside another of its thread and layer if it starts before that one ends. The layers are the framework
        (with Python and its queues) and the runtime below. An operator's self time therefore includes its runtime
        calls, as profilers count it. Rounded times can make a child end a little after its parent: only the part inside
        is taken from the parent's self time. Linear after the sort.
    """
    # Only the deciding columns are sorted; the wide rows are reordered once.
    lane = pl.col("kind").is_in(RUNTIME_KINDS).alias("below")
    order = ["start_ns", "dur_ns", "pid", "tid", "below", *(["tie"] if "tie" in rows.columns else [])]
    narrow = rows.select(lane, *(name for name in order if name != "below")).with_row_index("place")
    narrow = narrow.sort(order, descending=[name == "dur_ns" for name in order], maintain_order=True)
    depth, own = _lanes(narrow)
    place = narrow["place"]
    # A trace may hold millions of calls: no two forms of them are kept at once.
    del narrow
    rows = rows.drop("tie", strict=False)[place]
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias("op_id")
    return rows.with_columns(pl.Series("depth", depth), pl.Series("self_ns", own), number)


def _lanes(rows: pl.DataFrame) -> tuple[_Integers, _Integers]:
    """Depth and self time of rows by start, longer first; each lane is nested by itself."""
    depth = np.zeros(rows.height, dtype=np.int64)
    own = rows["dur_ns"].to_numpy().copy()
    start = rows["start_ns"].to_numpy()
    lanes = rows.with_row_index("row").group_by("pid", "tid", "below", maintain_order=True).agg("row")["row"]
    for mine in (lane.to_numpy() for lane in lanes):
        depth[mine], own[mine] = _nested(start[mine], own[mine])
    return depth, own


def _nested(start: _Integers, duration: _Integers) -> tuple[_Integers, _Integers]:
    """Depth and self time of the rows of one lane."""
    end = start + duration
    parent, depth = _parents(start, end)
    parent = _holding(parent, end)
    inside = np.flatnonzero(parent >= 0)
    above = parent[inside]
    own = duration.copy()
    np.subtract.at(own, above, np.minimum(end[inside], end[above]) - start[inside])
    return depth, own


def _holding(parent: _Integers, end: _Integers) -> _Integers:
    """The rows' parents; a row that its parent does not contain gets the nearest ancestor that does, if there is one.

    A mark that is opened in a call and closed after it, as a context manager does, lies in the caller of that call.
    """
    crossing = np.flatnonzero((parent >= 0) & (end > end[parent] + _ROUNDED_NS))
    above = parent[crossing]
    while len(crossing):
        above = parent[above]
        crossing, above = crossing[above >= 0], above[above >= 0]
        holds = end[crossing] <= end[above] + _ROUNDED_NS
        parent[crossing[holds]] = above[holds]
        crossing, above = crossing[~holds], above[~holds]
    return parent


def _parents(start: _Integers, end: _Integers) -> tuple[_Integers, _Integers]:
    """For each row its parent (the latest earlier row still open when it starts, or -1) and its depth.

    A row that has ended when the next row starts contains no row. Such leaves, often most rows, are set apart, and the
    others are nested. Then each leaf goes into the first open row: the last of the others before it, its parent, and so
    on.
    """
    leaf = np.append(end[:-1] <= start[1:], True)
    rows = np.flatnonzero(leaf)
    if len(start) < _FEW or len(rows) * _WORTH_PARTING < len(start):
        return _walk(start, end)
    others = np.flatnonzero(~leaf)
    above, height = _parents(start[others], end[others])
    # After the last row, where -1 points to, stands a row that never ends.
    ends, above, height = np.append(end[others], _NEVER), np.append(above, -1), np.append(height, -1)
    place = np.cumsum(~leaf)[rows] - 1
    closed = np.flatnonzero(ends[place] <= start[rows])
    for _ in range(_MOST_CLIMBS):
        if not closed.size:
            break
        place[closed] = above[place[closed]]
        closed = closed[ends[place[closed]] <= start[rows[closed]]]
    else:
        return _walk(start, end)
    parent, depth = np.empty_like(start), np.empty_like(start)
    row_of = np.append(others, -1)
    parent[others], depth[others] = row_of[above[:-1]], height[:-1]
    parent[rows], depth[rows] = row_of[place], height[place] + 1
    return parent, depth


def _walk(start: _Integers, end: _Integers) -> tuple[_Integers, _Integers]:
    """The parents and depths of `_parents`, row by row: slower, but in linear time whatever the rows' shape."""
    parent: list[int] = []
    depth: list[int] = []
    open_rows = [-1]
    open_ends = [int(_NEVER)]
    for row, (starts, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ends[-1] <= starts:
            open_ends.pop()
            open_rows.pop()
        parent.append(open_rows[-1])
        depth.append(len(open_rows) - 1)
        open_rows.append(row)
        open_ends.append(ends)
    return np.array(parent, dtype=np.int64), np.array(depth, dtype=np.int64)
