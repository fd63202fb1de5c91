"""Makes tables of communication from drawings, combined over their ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.last_arrivals import (
    Arrivals,
    identified_operations,
    operations_of_all_ranks,
    with_keys,
)
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo, Operations, group_info, operations
from hermes_testing import draw


def drawn(text: str, **columns: object) -> dict[int, pl.DataFrame]:
    """The operations of each rank in a drawing with cells of a microsecond, with these columns set; groups are as
    drawn."""
    tables = draw(text)
    rows = tables["comm_op"].with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    return {rank: own for (rank,), own in rows.partition_by("rank", as_dict=True).items()}


def groups_of(text: str, *, size: int | None = None) -> pl.DataFrame:
    """The groups in a drawing, or groups of `size` members of which nothing else is known."""
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
    """The operations of all ranks, split into waits and transfers, with the known facts on their groups."""
    named = recorded or {}
    rows = {
        rank: with_keys(rank, identified_operations(rank, own, group.filter(pl.col("rank") == rank))).with_columns(
            pl.col("comm_id").is_in(list(named.get(rank, ()))).alias("named")
        )
        for rank, own in comm_op.items()
    }
    late = pl.DataFrame(
        [
            (rank, comm_id, arrival.rank, arrival.at_ns)
            for rank, own in (peers or {}).items()
            for comm_id, arrival in own.items()
        ],
        schema={"rank": pl.Int64, "comm_id": pl.Int64, "late": pl.Int64, "peer_at_ns": pl.Int64},
        orient="row",
    )
    known = {key: info for rank in comm_op for key, info in group_info(group.filter(pl.col("rank") == rank)).items()}
    return operations(operations_of_all_ranks(rows), clocks or {}, late, known), known


def of_rank(made: Operations, rank: int) -> pl.DataFrame:
    """The rows of one rank."""
    return made.rows.filter(pl.col("rank") == rank)


def split(text: str, **columns: object) -> pl.DataFrame:
    """The rows of a drawing with all of its ranks on one clock, by rank and start."""
    made, _ = together(drawn(text, **columns), groups_of(text))
    return made.rows.sort("rank", "start_ns")
