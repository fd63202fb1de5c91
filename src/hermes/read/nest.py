"""Nesting of calls on a thread: depth and self time, for every reader alike."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.tables import RUNTIME_KINDS

_Integers = NDArray[np.int64]

_NEVER = 2**64


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
        depth[mine], own[mine] = _walk(start[mine].tolist(), own[mine].tolist())
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
