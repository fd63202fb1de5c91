"""Selects the memory curves of a rank that are worth showing: components that hold memory."""

from __future__ import annotations

import polars as pl

from hermes.profiles.measure.registry import RankTables

_CURVE = ("component", "device_id", "ts_ns", "allocated_bytes", "reserved_bytes", "active_bytes")
_KEY = ["component", "device_id"]


def curves_of(rank: RankTables) -> pl.DataFrame:
    """The memory samples of components that hold memory, by time; few of an Ascend capture's eighty components do."""
    rows = rank.data.table("memory", *_CURVE)
    most = rows.group_by(_KEY).agg(pl.col("allocated_bytes", "reserved_bytes").max())
    holding = most.filter((pl.col("allocated_bytes") != 0) | (pl.col("reserved_bytes") > 0)).select(_KEY)
    kept = rows.join(holding, on=_KEY, how="semi", nulls_equal=True, maintain_order="left")
    return kept.sort("ts_ns", maintain_order=True)
