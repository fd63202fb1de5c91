"""Reads the profiler's own sums of a capture that has no timeline: device work by type, host calls by name."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from hermes.model.sum_measures import RecordedSum
from hermes.profiles.measure.registry import RankTables, per_rank

_DEVICE = (("op", None), ("operator", "device self"))
_HOST = (("api", None), ("operator", "host self"))
"""Sources of the table `statistic` and their level, the better source first."""
_COMMUNICATION = "communication"


@per_rank(RecordedSum, needs={"kernel": ("rank",), "comm_op": ("rank",), "host_op": ("rank",)}, beside=("statistic",))
def sums_of(rank: RankTables) -> Iterator[RecordedSum]:
    """The sums of each side of a rank that has no timeline, the largest first; nothing for a side with one."""
    rows = rank.table("statistic").filter(pl.col("total_ns") > 0)
    timed = {"device": rank.table("kernel").height + rank.table("comm_op").height, "host": rank.table("host_op").height}
    for side, sources in (("device", _DEVICE), ("host", _HOST)):
        if timed[side]:
            continue
        found = next((part for source, level in sources if (part := _of(rows, source, level)).height), rows.clear())
        found = found.select("name", "level", "count", "total_ns", "max_ns")
        if side == "device":
            found = pl.concat([found, _of(rows, _COMMUNICATION, None).with_columns(level=pl.lit(_COMMUNICATION))])
        whole = pl.col("total_ns").sum() if side == "device" else pl.col("total_ns").sum().over("level")
        found = found.with_columns((pl.col("total_ns") / whole).alias("share"))
        for row in found.sort("total_ns", "name", descending=[True, False]).iter_rows(named=True):
            yield RecordedSum(
                rank=rank.rank, side=side, name=row["name"], detail=row["level"] or "", count=row["count"],  # type: ignore[arg-type]
                total_ns=row["total_ns"], share=row["share"], max_ns=row["max_ns"],
            )  # fmt: skip


def _of(rows: pl.DataFrame, source: str, level: str | None) -> pl.DataFrame:
    """The sums of one source by name and level."""
    own = rows.filter((pl.col("source") == source) & (pl.col("level").eq(level) if level else True))
    return own.group_by("name", "level").agg(pl.col("count", "total_ns").sum(), pl.col("max_ns").max())
