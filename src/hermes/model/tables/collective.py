"""What makes the rows of several ranks one and the same collective."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""A member leaves these only when every member has arrived; a broadcast or a send lets the first go early."""
ROOTED = ("broadcast", "reduce", "scatter", "gather")
"""Of one member and all others: only who receives must wait."""
BETWEEN_TWO = ("send", "recv", "send_recv")
"""From one rank to another: of a pipeline, from stage to stage."""


def synchronising(comm_op: pl.DataFrame) -> pl.DataFrame:
    """The rows of collectives that end for all members together, with `key`: equal on all ranks within a group."""
    return keyed(comm_op, SYNCHRONISING)


def keyed(comm_op: pl.DataFrame, ops: Collection[str]) -> pl.DataFrame:
    """The rows of these operations with `key`: the name, or the place in the group where a rank has the name twice."""
    rows = comm_op.filter(pl.col("op").is_in(ops) & pl.col("group").is_not_null())
    alone = pl.len().over("group", "name") == 1
    return rows.with_columns(
        pl.when(alone).then(pl.col("name")).otherwise(pl.format("{} {}", "op", "sequence")).alias("key")
    )
