"""Measures the tensors of one rank: padding, dense gradients, concatenations, mixed layouts."""

from __future__ import annotations

import polars as pl

from hermes.model.tensor_measures import DenseTable, KeptConcat, MixedLayouts, Padding
from hermes.profiles.measure.host.settings import told_before
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device_of_step import busy_of
from hermes.profiles.measure.tensors import concat_growth, dense_tables, mixed_layouts, padding

_WANTED = sorted(
    {
        *padding.PADS, padding.LOOKUP, *dense_tables.LOOKUPS, *dense_tables.BACKWARDS, *concat_growth.KEEPING,
    }
)  # fmt: skip


def calls_of(rank: RankTables) -> pl.DataFrame:
    """The calls with shapes that any tensor measure reads: few of many."""
    return rank.data.where("host_op", ("name", "shapes", "dtypes"), pl.col("name").is_in(_WANTED))


@per_rank(Padding, needs={"setting": ("source", "name", "value")})
def padding_of(rank: RankTables) -> tuple[Padding, ...]:
    """The padded batches of a rank."""
    return tuple(padding.padding(rank.rank, rank.once(calls_of), told_before(rank.table("setting"))))


@per_rank(DenseTable)
def tables_of(rank: RankTables) -> tuple[DenseTable, ...]:
    """The embedding tables of a rank with dense gradients."""
    return tuple(dense_tables.dense_tables(rank.rank, rank.once(calls_of)))


@per_rank(KeptConcat)
def kept_concats_of(rank: RankTables) -> tuple[KeptConcat, ...]:
    """The concatenations of a rank that append nothing."""
    return tuple(concat_growth.kept_concats(rank.rank, rank.once(calls_of)))


@per_rank(MixedLayouts)
def layouts_of(rank: RankTables) -> tuple[MixedLayouts, ...]:
    """The operators of a rank whose inputs have different layouts; only on jobs that compute on the host."""
    if rank.once(busy_of) is not None:
        return ()
    wide = rank.data.where(
        "host_op", mixed_layouts.COLUMNS, (pl.col("kind") == "op") & pl.col("shapes").str.contains(";")
    )
    return tuple(mixed_layouts.mixed_layouts(rank.rank, wide, max(1, len(splits_of(rank)))))
