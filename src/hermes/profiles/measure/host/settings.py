"""Collects environment settings: of each rank, and of the job by value, with the ranks that have each value."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from hermes.base.units import whole_number
from hermes.knowledge.host_settings import BEFORE
from hermes.model.host_measures import RankSettings, SettingValues
from hermes.profiles.measure.registry import RankTables, per_rank

# Settings that differ between ranks by their nature.
_OWN = frozenset({"rank", "rank_id", "trace_id", "global_rank", "local_rank", "device_id"})


@per_rank(RankSettings)
def settings_of(rank: RankTables) -> RankSettings:
    """The settings of a rank."""
    return settings_in(rank.rank, rank.table("setting"))


def settings_in(rank: int, setting: pl.DataFrame) -> RankSettings:
    """The settings of a rank by source and name, without settings of a rank by nature (its number, its trace)."""
    rows = setting.select("source", "name", "value").unique(maintain_order=True).iter_rows()
    return RankSettings(rank=rank, values=tuple(row for row in rows if row[1] not in _OWN and row[0] != BEFORE))


def told_before(setting: pl.DataFrame) -> dict[str, int]:
    """What a capture of Hermes records about the steps before it, by name; only whole numbers are kept."""
    rows = setting.filter(pl.col("source") == BEFORE).select("name", "value").drop_nulls()
    return {str(name): number for name, value in rows.iter_rows() if (number := whole_number(value)) is not None}


def settings(by_rank: Sequence[RankSettings]) -> tuple[SettingValues, ...]:
    """All settings of all ranks: first the settings in which ranks differ, then by source and name."""
    found: dict[tuple[str, str], dict[str | None, list[int]]] = {}
    for one in sorted(by_rank, key=lambda one: one.rank):
        for source, name, value in one.values:
            found.setdefault((source, name), {}).setdefault(value, []).append(one.rank)
    every = {one.rank for one in by_rank}
    rows_of = [
        SettingValues(
            source=source,
            name=name,
            values=tuple(
                (value, tuple(dict.fromkeys(ranks)))
                for value, ranks in sorted(values.items(), key=lambda one: (-len(one[1]), one[1], str(one[0])))
            ),
            absent=tuple(sorted(every.difference(*values.values()))),
        )
        for (source, name), values in found.items()
    ]
    return tuple(sorted(rows_of, key=lambda row: (not row.differs, row.source, row.name)))
