"""Computes keys of collectives: rows of the same collective have the same key on all ranks."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that a member leaves only when all members arrived; a broadcast or a send lets the first go early."""
ROOTED = ("broadcast", "reduce", "scatter", "gather")
"""Operations between one member and all others, in which only receivers must wait."""
BETWEEN_TWO = ("send", "recv", "send_recv")
"""Operations from one rank to another, such as between the stages of a pipeline."""


def synchronising(comm_op: pl.DataFrame) -> pl.DataFrame:
    """The rows of collectives that end for all members together, with `key`: equal on all ranks within a group."""
    return keyed(comm_op, SYNCHRONISING)


def keyed(comm_op: pl.DataFrame, ops: Collection[str]) -> pl.DataFrame:
    """The rows of these operations with `key`: the name, or the row's number in the group if a name occurs twice."""
    rows = comm_op.filter(pl.col("op").is_in(ops) & pl.col("group").is_not_null())
    alone = pl.len().over("group", "name") == 1
    return rows.with_columns(
        pl.when(alone).then(pl.col("name")).otherwise(pl.format("{} {}", "op", "sequence")).alias("key")
    )
