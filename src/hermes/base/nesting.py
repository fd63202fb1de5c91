"""Which call of a thread is open at a moment."""

from __future__ import annotations

import numpy as np
import polars as pl


def enclosing(outer: pl.DataFrame, moments: pl.DataFrame) -> pl.Series:
    """For each row of `moments` (`pid, tid, start_ns`) the place in `outer` of the innermost row open then, or null.

    The row that began last is it if it is still open. If not, the open one holds another: rows that hold none are left
    out, and the rest is looked at again.
    """
    lane = ["pid", "tid"]
    outer = outer.select(*lane, "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")).with_row_index(
        "at"
    )
    outer = outer.drop_nulls(lane).sort(*lane, "start_ns", "end_ns", descending=[False, False, False, True])
    left = moments.select(*lane, "start_ns").with_row_index("row").drop_nulls(lane).sort("start_ns")
    found = np.full(moments.height, -1, dtype=np.int64)
    while left.height and outer.height:
        hit = left.join_asof(
            outer.sort("start_ns", maintain_order=True),
            on="start_ns", by=lane, strategy="backward", check_sortedness=False,
        )  # fmt: skip
        is_open = pl.col("start_ns") < pl.col("end_ns")
        good = hit.filter(is_open)
        found[good["row"].to_numpy()] = good["at"].to_numpy()
        left = hit.filter(~is_open).select("row", *lane, "start_ns")
        holds = (pl.col("start_ns").shift(-1) < pl.col("end_ns")) & pl.all_horizontal(
            pl.col(name) == pl.col(name).shift(-1) for name in lane
        )
        outer = outer.filter(holds.fill_null(False))
    places = pl.Series("at", found)
    return places.set(places < 0, None)
