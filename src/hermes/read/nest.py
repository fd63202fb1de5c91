"""Nesting of calls on a thread: depth and self time, for every reader alike."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

RUNTIME_KINDS = ("acl", "node", "model", "hccl", "runtime", "driver")
"""Kinds of `host_op` that lie below the framework."""


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
    order = ["pid", "tid", "below", "start_ns", "dur_ns", *(["tie"] if "tie" in rows.columns else [])]
    narrow = rows.select(
        pl.col("kind").is_in(RUNTIME_KINDS).alias("below"), *(name for name in order if name != "below")
    )
    narrow = narrow.with_row_index("place").sort(
        order, descending=[name == "dur_ns" for name in order], maintain_order=True
    )
    lanes = narrow.select(pl.struct("pid", "tid", "below").rle_id()).to_series()
    depth, own = _walk(lanes.to_list(), narrow["start_ns"].to_list(), narrow["dur_ns"].to_list())
    narrow = narrow.select("place", "start_ns", "dur_ns", pl.Series("depth", depth), pl.Series("self_ns", own))
    narrow = narrow.sort("start_ns", "dur_ns", descending=[False, True], maintain_order=True)
    number = pl.int_range(pl.len(), dtype=pl.Int64).alias("op_id")
    return rows.drop("tie", strict=False)[narrow["place"]].with_columns(narrow["depth"], narrow["self_ns"], number)


def _walk(lanes: list[int], starts: list[int], durations: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    depth = [0] * len(starts)
    own = durations.copy()
    open_rows: list[int] = []
    open_ends: list[int] = []
    lane = -1
    for row, start in enumerate(starts):
        if lanes[row] != lane:
            lane = lanes[row]
            open_rows, open_ends = [], []
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
            open_rows.pop()
        end = start + durations[row]
        if open_ends:
            own[open_rows[-1]] -= min(end, open_ends[-1]) - start
        depth[row] = len(open_rows)
        open_rows.append(row)
        open_ends.append(end)
    return np.asarray(depth, dtype=np.int64), np.asarray(own, dtype=np.int64)
