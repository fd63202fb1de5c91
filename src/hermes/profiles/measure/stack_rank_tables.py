"""Stacks data frames of many ranks into one with a column `rank`: one call of polars for thousands of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl


def stacked(parts: Iterable[tuple[int, pl.DataFrame]]) -> pl.DataFrame:
    """The rows of all parts in their order, with the rank of each part as the first column `rank`."""
    listed = list(parts)
    heights = [rows.height for _, rows in listed]
    ranks = np.repeat(np.array([rank for rank, _ in listed], dtype=np.int64), np.array(heights, dtype=np.int64))
    # One chunk per column: thousands of small chunks cost memory and time, and keep the frames of all ranks alive.
    rows = pl.concat([rows for _, rows in listed], rechunk=True).drop("rank", strict=False)
    return rows.insert_column(0, pl.Series("rank", ranks, dtype=pl.Int64))


def left_join_in_order(rows: pl.DataFrame, found: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """A left join in the order of `rows` that shares the columns of `rows`: a join of polars copies them all.

    A row that `found` has twice appears twice, as in any join.
    """
    told = rows.select(on).join(found, on=on, how="left", maintain_order="left")
    if told.height != rows.height:
        return rows.join(found, on=on, how="left", maintain_order="left")
    return rows.hstack(told.drop(on).get_columns())
