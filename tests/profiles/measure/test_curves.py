"""Which samples of memory are looked at."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.memory.curves import curves_of
from hermes.profiles.measure.registry import RankTables
from hermes.store.rank_data import RankData


def test_only_components_that_hold_something_are_kept_by_time(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        [
            ("PTA", 0, 20, 7, 9),
            ("idle", 0, 15, 0, 0),
            ("PTA", 0, 10, 0, 9),
            ("driver", None, 12, None, 5),
            ("PTA", 1, 11, 0, 0),
        ],
        schema=["component", "device_id", "ts_ns", "allocated_bytes", "reserved_bytes"],
        orient="row",
    ).with_columns(pl.lit(0).alias("rank"), pl.lit(None).alias("active_bytes"))
    wanted = schema_of(TABLES["memory"])
    rows.select(pl.col(name).cast(kind) for name, kind in wanted.items()).write_parquet(tmp_path / "memory.parquet")
    rank = RankTables(RankData(rank=0, root=tmp_path, format="ascend-text", folder=tmp_path, notes=()))
    kept = curves_of(rank).select("component", "device_id", "ts_ns").rows()
    assert kept == [("PTA", 0, 10), ("driver", None, 12), ("PTA", 0, 20)]
