"""Measures the compute of one rank: its kernels, or its framework's operators on a job without an accelerator."""

from __future__ import annotations

import polars as pl

from hermes.base.enclosing_calls import enclosing
from hermes.base.intervals import Intervals
from hermes.base.units import whole_number
from hermes.knowledge.identify_chip import chip_of
from hermes.knowledge.user_code import is_framework
from hermes.knowledge.vendor_traits import traits
from hermes.model.compute_measures import ChipUsed, OperatorCost, StepCompute
from hermes.model.tables.device_settings import CUBE_CLOCK, CUBES, DEVICE_MEMORY
from hermes.profiles.measure.compute.kernel_sums import CLOCKS, KERNEL_COLUMNS, PIPES, RankCompute, rank_compute
from hermes.profiles.measure.compute.operator_signatures import bounded_compute
from hermes.profiles.measure.compute.recomputed_work import recomputed, scoped
from hermes.profiles.measure.registry import RankTables, per_rank
from hermes.store.rank_data import RankData

_HOST_OP = ("rank", "kind", "name", "start_ns", "dur_ns", "self_ns", "step", "shapes", "dtypes", "pid", "tid")
_COPY = "aten::copy_"
_CONTIGUOUS = "aten::contiguous"
_GRADIENT = r"^autograd::engine::evaluate_function: \w+Backward\d+$"
"""Autograd nodes of PyTorch's own operators (nodes of a program's functions have no number): their conversions are not
in the user's code.
"""
_WHY_COPIED = ("aten::_to_copy", _CONTIGUOUS)


@per_rank(
    RankCompute,
    needs={"kernel": KERNEL_COLUMNS, "host_op": ("kind", "name", "pid", "tid", "start_ns", "dur_ns")},
    beside=("counter", "pmu"),
    becomes=(OperatorCost, StepCompute, ChipUsed),
)
def compute_of(rank: RankTables) -> RankCompute | None:
    """The compute of one rank; None if it has none.

    A job without an accelerator computes in its framework's operators: operators with mostly self time stand for
    kernels.
    """
    data, about = rank.data, rank.about
    kernel, host_op = rank.table("kernel"), rank.table("host_op")
    recorded, vendor = about["chip"], about["vendor"]
    pmu = frequency = None
    if traits(vendor).counters:
        pmu = data.where("pmu", ("kernel_id", "name", "value"), pl.col("name").is_in((*PIPES, *CLOCKS)))
        clock = (pl.col("source") == "AI Core Freq") & (pl.col("series") == "MHz")
        frequency = data.where("counter", ("ts_ns", "value", "device_id"), clock)
        if about["device_id"] is not None:
            own = pl.col("device_id").is_null() | (pl.col("device_id") == about["device_id"])
            frequency = frequency.filter(own)
    if not traits(vendor).device:
        kernel = _operators(data)
    again = recomputed(host_op) | scoped(kernel)
    found = rank_compute(
        data.rank,
        _launched(data, kernel, again) if traits(vendor).counters else kernel,
        vendor=vendor,
        recorded=recorded,
        chip=chip_of(recorded, _setting(rank, DEVICE_MEMORY)),
        said=(_setting(rank, CUBES), _setting(rank, CUBE_CLOCK)),
        pmu=pmu,
        frequency=frequency,
        again=again if len(again) or (host_op["kind"] == "python").any() else None,
    )
    return bounded_compute(found) if found else None


def _setting(rank: RankTables, name: str) -> int | None:
    """A number that the capture records about the device under a name; None without exactly one value."""
    setting = rank.table("setting")
    told = setting.filter(pl.col("name") == name)["value"].drop_nulls().unique().to_list()
    return whole_number(told[0]) if len(told) == 1 else None


def _launched(data: RankData, kernel: pl.DataFrame, again: Intervals) -> pl.DataFrame:
    """The kernels with their framework operator's time as launch: a task queue's thread launches them later."""
    if not len(again):
        return kernel
    flow = data.where("flow", ("src_ns", "dst_ns"), pl.col("kind") == "operator")
    asked = flow.unique("dst_ns", keep="first").rename({"dst_ns": "start_ns", "src_ns": "asked_ns"})
    joined = kernel.join(asked, on="start_ns", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("asked_ns", "launch_ns").alias("launch_ns")).drop("asked_ns")


def _operators(data: RankData) -> pl.DataFrame:
    """The framework's operators with mostly self time, as rows like those of kernels.

    A product calls `resolve_conj` and copies its bias: calls inside an operator count by themselves, and the rest as
    the operator's own.
    """
    rows = data.table("host_op", *_HOST_OP)
    leaves = rows.filter((pl.col("kind") == "op") & (2 * pl.col("self_ns") > pl.col("dur_ns"))).with_columns(
        pl.col("self_ns").alias("dur_ns")
    )
    empty = [pl.lit(None, dtype=pl.Int64).alias(name) for name in ("launch_ns", "call", "blocks")]
    texts = [
        pl.lit(None, dtype=pl.String).alias(name)
        for name in ("input_values", "input_formats", "output_shapes", "output_dtypes", "output_formats", "unit")
    ]
    return _told_apart(leaves, rows).select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("kernel_id"),
        pl.lit("").alias("name"),
        pl.col("name").alias("type"),
        pl.lit("compute").alias("component"),
        "start_ns", "dur_ns", "step",
        pl.col("shapes").alias("input_shapes"),
        pl.col("dtypes").alias("input_dtypes"),
        *empty, *texts,
    ).select(KERNEL_COLUMNS)  # fmt: skip


def _told_apart(leaves: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The same operators, with copies named after the operator that asked for them: for another type or layout.

    A layout that the framework asks for inside its own operators or layers is not the program's choice.
    """
    asked = (
        _of_the_program(rows.filter(pl.col("name").is_in(_WHY_COPIED) & (pl.col("kind") == "op")), rows)
        .select("pid", "tid", "start_ns", (pl.col("start_ns") + pl.col("dur_ns")).alias("until_ns"), why="name")
        .sort("start_ns")
    )
    if not asked.height:
        return leaves
    joined = leaves.sort("start_ns", maintain_order=True).join_asof(
        asked, on="start_ns", by=["pid", "tid"], strategy="backward", check_sortedness=False
    )
    inside = (pl.col("name") == _COPY) & (pl.col("start_ns") < pl.col("until_ns"))
    return joined.with_columns(pl.when(inside).then("why").otherwise("name").alias("name"))


def _of_the_program(asked: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The calls that the program itself asked for.

    Layouts made by operators or framework functions are left out, and so are types in gradients of operators.
    """
    node = pl.col("name").str.contains(_GRADIENT)
    gradients = rows.filter(node & ~pl.col("name").str.contains(": (ToCopy|Checkpoint)"))
    if gradients.height:
        asked = asked.filter(enclosing(gradients, asked).is_null())
    outer = rows.filter(
        pl.col("kind").is_in(["op", "python"])
        & ~pl.col("name").is_in(_WHY_COPIED)
        & ~pl.col("name").str.starts_with("<built-in")
    )
    if not asked.height or not outer.height:
        return asked
    inner = pl.DataFrame({"at": enclosing(outer, asked).cast(pl.Int64)})
    about = outer.select("kind", "name").with_row_index("at").with_columns(pl.col("at").cast(pl.Int64))
    callers = inner.join(about, on="at", how="left", maintain_order="left")
    framework = [name for name in callers["name"].drop_nulls().unique() if is_framework(name)]
    own = (callers["kind"] != "op").fill_null(value=True) & ~callers["name"].is_in(framework).fill_null(value=False)
    return asked.filter(own | (asked["name"] != _CONTIGUOUS))
