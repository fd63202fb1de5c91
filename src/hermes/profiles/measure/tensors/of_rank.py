"""The tensors that operators of one rank get: padded batches, dense tables, concatenations, mixed layouts."""

from __future__ import annotations

import polars as pl

from hermes.model.tensor_measures import DenseTable, KeptConcat, MixedLayouts, Padding
from hermes.profiles.measure.host.settings import told_before
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.profiles.measure.steps.breakdown import splits_of
from hermes.profiles.measure.steps.device import busy_of
from hermes.profiles.measure.tensors import concat_growth, dense_tables, mixed_layouts, padding

_WANTED = sorted(
    {
        *padding.PADS, padding.LOOKUP, *dense_tables.LOOKUPS, *dense_tables.BACKWARDS, *concat_growth.KEEPING,
    }
)  # fmt: skip


def calls_of(rank: RankTables) -> pl.DataFrame:
    """The calls with shapes that any of these looks at: few of many."""
    return rank.data.where("host_op", ("name", "shapes", "dtypes"), pl.col("name").is_in(_WANTED))


@per_rank(Padding, needs={"setting": ("source", "name", "value")})
def padding_of(rank: RankTables) -> tuple[Padding, ...]:
    """Batches that were padded."""
    return tuple(padding.padding(rank.rank, rank.once(calls_of), told_before(rank.table("setting"))))


@per_rank(DenseTable)
def tables_of(rank: RankTables) -> tuple[DenseTable, ...]:
    """Tables with dense gradients."""
    return tuple(dense_tables.dense_tables(rank.rank, rank.once(calls_of)))


@per_rank(KeptConcat)
def kept_concats_of(rank: RankTables) -> tuple[KeptConcat, ...]:
    """Concatenations that append nothing."""
    return tuple(concat_growth.kept_concats(rank.rank, rank.once(calls_of)))


@per_rank(MixedLayouts)
def layouts_of(rank: RankTables) -> tuple[MixedLayouts, ...]:
    """Operators whose inputs lie in different layouts; only where the host computes."""
    if rank.once(busy_of) is not None:
        return ()
    wide = rank.data.where(
        "host_op", mixed_layouts.COLUMNS, (pl.col("kind") == "op") & pl.col("shapes").str.contains(";")
    )
    return tuple(mixed_layouts.mixed_layouts(rank.rank, wide, max(1, len(splits_of(rank)))))
