"""Measures vector work that runs on cores of the matrix unit, on devices with both kinds of cores."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from hermes.knowledge.ascend_codes import MATRIX_CORES
from hermes.knowledge.operators import operator_of
from hermes.knowledge.vendor_traits import traits
from hermes.model.declare import field, measure
from hermes.profiles.measure.registry import RankTables, per_rank

_VECTOR = ("elementwise", "reduction", "normalisation", "softmax", "cast", "pooling", "indexing", "copy", "transpose")
_MOST = 50


@measure(
    "compute.vector_on_matrix",
    title="Vector work on matrix cores",
    zh="在矩阵核上的向量算子",
    about="Operators without a matrix product whose kernels ran on cores of the matrix unit, beside vector cores.",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOnMatrix:
    """All kernels of one operator without a matrix product that ran on matrix cores, in the steps of the capture."""

    rank: int = field("global rank", "Rank", "卡")
    operator: str = field("type of the operator", "Operator", "算子")
    kind: str = field("its class", "Class", "类别", key="class")
    core: str = field("the core as the profiler names it", "Core", "核")
    calls: int = field("kernels", "Count", "次数")
    ns: int = field("their time", "Total", "总时间")
    blocks: int | None = field("blocks of most of them", "Blocks", "块数")


@per_rank(
    VectorOnMatrix, needs={"kernel": ("component", "type", "unit", "task_type", "dur_ns", "step", "blocks")}
)  # fmt: skip
def vector_on_matrix(rank: RankTables) -> tuple[VectorOnMatrix, ...]:
    """The vector operators of a rank on matrix cores, by time; empty without two kinds of cores or recorded units."""
    kernel = rank.table("kernel")
    if not traits(rank.vendor).counters or not (kernel["unit"] == "vector").any():
        return ()
    rows = kernel.filter((pl.col("component") == "compute") & pl.col("type").is_not_null())
    if rows["step"].is_not_null().any():
        rows = rows.filter(pl.col("step").is_not_null())
    rows = rows.filter(pl.col("task_type").is_in(MATRIX_CORES) & pl.col("unit").is_in(["cube", "mix"]))
    kinds = {name: operator_of(name).kind for name in rows["type"].unique().to_list()}
    wrong = rows.filter(pl.col("type").is_in([name for name, kind in kinds.items() if kind in _VECTOR]))
    summed = (
        wrong.group_by("type", "task_type", maintain_order=True)
        .agg(pl.len().alias("calls"), pl.col("dur_ns").sum(), pl.col("blocks").mode().min())
        .sort("dur_ns", "type", descending=[True, False])
    )
    return tuple(
        VectorOnMatrix(
            rank=rank.rank, operator=row["type"], kind=kinds[row["type"]], core=row["task_type"], calls=row["calls"],
            ns=row["dur_ns"], blocks=row["blocks"],
        )
        for row in summed.head(_MOST).iter_rows(named=True)
    )  # fmt: skip
