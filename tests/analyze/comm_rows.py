"""Drawn communication, brought together over its ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from hermes.analyze.arrivals import Arrivals, identified
from hermes.analyze.collectives import GroupInfo, Operations, group_info, operations
from hermes.tables import TABLES, schema_of
from hermes.testing import draw


def drawn(text: str, **columns: object) -> dict[int, pl.DataFrame]:
    """Each rank's operations as drawn, cells of a microsecond, with these columns set; groups are those drawn."""
    tables = draw(text)
    rows = tables["comm_op"].with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    return {rank: own for (rank,), own in rows.partition_by("rank", as_dict=True).items()}


def groups_of(text: str, *, size: int | None = None) -> pl.DataFrame:
    """The groups as drawn, or each with so many members of which nothing else is known."""
    group = draw(text)["group"]
    if size is None:
        return group
    names = group["group"].unique().to_list()
    ranks = group["rank"].unique().to_list()
    rows = [
        {"rank": rank, "group": name, "member": member} for rank in ranks for name in names for member in range(size)
    ]
    return pl.DataFrame(rows, schema=schema_of(TABLES["group"]))


def together(
    comm_op: Mapping[int, pl.DataFrame],
    group: pl.DataFrame,
    *,
    clocks: Mapping[int, tuple[int, int]] | None = None,
    peers: Arrivals | None = None,
    recorded: Mapping[int, Collection[int]] | None = None,
) -> tuple[Operations, dict[str, GroupInfo]]:
    """The operations of all ranks, split; with what is known of their groups."""
    rows = {rank: identified(rank, own, group.filter(pl.col("rank") == rank)) for rank, own in comm_op.items()}
    known = {key: info for rank in comm_op for key, info in group_info(group.filter(pl.col("rank") == rank)).items()}
    return operations(rows, clocks or {}, peers or {}, recorded or {}, known), known


def split(text: str, **columns: object) -> pl.DataFrame:
    """The rows of a drawing whose ranks are all there, on one clock, by rank and start."""
    made, _ = together(drawn(text, **columns), groups_of(text))
    return made.rows.sort("rank", "start_ns")
