"""Sums the compute kernels of one rank, by operator signature and step.

A signature is an operator with its shapes, types, formats and values. There are few signatures, so each is looked up
once, however many kernels there are. Losses are kept as sums to which any rated clock can be applied later: the rated
clock may be known only after all ranks were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.intervals import Intervals
from hermes.knowledge.identify_chip import Chip
from hermes.knowledge.operators import is_layout_kernel
from hermes.knowledge.vendor_traits import traits
from hermes.model.compute_measures import CoreUnit

SIGNATURE = (
    "operator", "input_shapes", "input_dtypes", "input_values", "input_formats", "output_shapes", "output_dtypes",
    "output_formats",
)  # fmt: skip
KERNEL_COLUMNS = (
    "kernel_id", "name", "type", "component", "unit", "start_ns", "dur_ns", "step", "launch_ns", "call", "blocks",
    *SIGNATURE[1:],
)  # fmt: skip
"""The columns of the table `kernel` that `rank_compute` reads."""

BUSY_PIPE = 0.8
"""The share of a kernel's time from which a pipe counts as busy. Source: the advisor of Ascend/msprof-analyze."""

PIPES = tuple(
    [f"aic_{pipe}_ratio" for pipe in ("mac", "scalar", "mte1", "mte2", "fixpipe")]
    + [f"aiv_{pipe}_ratio" for pipe in ("vec", "scalar", "mte2", "mte3")]
    + [f"{pipe}_ratio" for pipe in ("mac", "vec", "scalar", "mte1", "mte2", "mte3")]
)
"""Counters of the pipes of cube (`aic`) and vector cores (`aiv`); chips with one kind of core write no prefix."""

UNITS: Mapping[CoreUnit, tuple[str, ...]] = {
    "cube": ("mac",), "vector": ("vec",), "scalar": ("scalar",), "loading": ("mte1", "mte2"),
    "storing": ("mte3", "fixpipe"),
}  # fmt: skip
"""The pipes of each unit of a core: products, vectors, scalar code, loads and stores."""

CLOCKS = ("aic_total_cycles", "aicore_time(us)", "cube_utilization(%)")
"""Counters that tell the clock and the number of cubes."""

_SUMS = (
    "clocked_ns", "cycles", "idle_cycles", "idle_ns", "slack_cycles", "slack_ns", "told_ns", "piped_ns", *UNITS,
)  # fmt: skip

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCompute:
    """The compute of one rank. `signatures` has a row for each signature (`key`), `steps` one for each key and step.

    Columns of `steps`: `ns`, `calls`; `clocked_ns` is time with a known clock, `cycles` its cycles (MHz x ns).
    `idle_cycles` are cycles of cores without a block, `idle_ns` their time in kernels without a clock. `slack_…` is the
    time or cycles in which no pipe is busy. `told_ns` is the time of kernels with known blocks, `piped_ns` of kernels
    with known pipes; a column for each of `UNITS` is the time in which that unit is busy in them. `ai_cpu_ns` is time
    on AI CPU, `layout_ns` time in library kernels that only change a layout. `again_ns` and `again_calls` are
    recomputation.
    """

    rank: int
    recorded: str | None
    vendor: str
    chip: Chip | None
    cubes: int | None
    clock: int | None
    top_mhz: float | None
    signatures: pl.DataFrame
    steps: pl.DataFrame
    has_pipes: bool
    has_units: bool
    has_launches: bool
    looked: str | None = None
    """The chip for which `signatures.looked_up` was called; empty: without a chip; None: not called yet."""


def rank_compute(
    rank: int,
    kernel: pl.DataFrame,
    *,
    vendor: str,
    recorded: str | None,
    chip: Chip | None,
    said: tuple[int | None, int | None] = (None, None),
    pmu: pl.DataFrame | None = None,
    frequency: pl.DataFrame | None = None,
    again: Intervals | None = None,
) -> RankCompute | None:
    """Sum the compute kernels of a rank; None if it has none.

    Copies and fills that an operator launches beside its kernels (a product clears its workspace) count as its time.
    `said` is the number of cubes and their clock in MHz as the capture names them: it counts if there are no counters.
    `pmu` holds the counters `PIPES` and `CLOCKS`. `frequency` holds samples of the clock (`ts_ns`, `value` in MHz).
    `again` holds the times of launches that recompute; None if the capture cannot tell (no stacks, no checkpoint).
    """
    rows = kernel.filter(pl.col("component") == "compute")
    if not rows.height:
        return None
    rows = rows.with_columns(pl.coalesce("type", "name").alias("operator"))
    rows = _with_copies(rows.with_columns(pl.struct(SIGNATURE).hash().alias("key")), kernel)
    counted = _counted(pmu, rows) if traits(vendor).counters else (None, None)
    cubes, clock = counted if all(counted) else said
    rows = rows.with_columns(
        pl.coalesce("call", -1 - pl.col("kernel_id")).alias("call"),
        *_parts(rows, vendor, chip, cubes, pmu, frequency),
        _layout(rows, vendor).alias("layout_ns"),
        pl.when(pl.col("unit") == "ai_cpu").then("dur_ns").otherwise(0).alias("ai_cpu_ns"),
        _again(rows, again).alias("again_ns"),
    )
    mhz = None if frequency is None or not frequency.height else frequency["value"].max()
    return RankCompute(
        rank=rank,
        recorded=recorded,
        vendor=vendor,
        chip=chip,
        cubes=cubes,
        clock=clock,
        top_mhz=float(mhz) if isinstance(mhz, (int, float)) else None,
        signatures=_signatures(rows),
        steps=_steps(rows),
        has_pipes=pmu is not None and bool(rows["piped_ns"].sum()),
        has_units=bool(rows["unit"].is_not_null().any()),
        has_launches=again is not None,
    )


def _with_copies(rows: pl.DataFrame, kernel: pl.DataFrame) -> pl.DataFrame:
    """The compute rows, and the copies of the same calls with the signature of their call."""
    copies = kernel.filter((pl.col("component") == "copy") & pl.col("call").is_not_null())
    if not copies.height:
        return rows
    asked = rows.join(copies.select("call").unique(), on="call", how="semi")
    owner = asked.select("call", "key", "operator", *SIGNATURE[1:]).unique("call", keep="first", maintain_order=True)
    own = copies.drop(SIGNATURE[1:]).join(owner, on="call", maintain_order="left").with_columns(type="operator")
    return pl.concat([rows, own.select(rows.columns)])


def _signatures(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per signature: its columns, its longest kernel, calls, kernels, time, and the median call."""
    summed = rows.group_by("key", maintain_order=True).agg(
        *(pl.col(name).first() for name in SIGNATURE),
        pl.col("name").get(pl.col("dur_ns").arg_max()).alias("kernel"),
        pl.col("type").is_null().first().alias("nameless"),
        pl.col("call").n_unique().alias("calls"),
        pl.len().alias("kernels"),
        pl.col("dur_ns").sum().alias("ns"),
        pl.col("dur_ns").median().round().cast(pl.Int64).alias("median_ns"),
    )
    several = summed.filter(pl.col("calls") < pl.col("kernels")).select("key")
    if not several.height:
        return summed
    whole = (
        rows.join(several, on="key", how="semi")
        .group_by("key", "call")
        .agg(pl.col("dur_ns").sum())
        .group_by("key")
        .agg(pl.col("dur_ns").median().round().cast(pl.Int64).alias("whole_ns"))
    )
    joined = summed.join(whole, on="key", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce("whole_ns", "median_ns").alias("median_ns")).drop("whole_ns")


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    again = pl.when(pl.col("again_ns") > 0).then("call")
    # Sum in the order of the rows: sums of fractions in another order differ in their last digits.
    return rows.group_by("step", "key", maintain_order=True).agg(
        pl.col("dur_ns").sum().alias("ns"),
        pl.col("call").n_unique().alias("calls"),
        again.drop_nulls().n_unique().alias("again_calls"),
        *(pl.col(name).sum() for name in ("layout_ns", "ai_cpu_ns", "again_ns", *_SUMS)),
    )


def _layout(rows: pl.DataFrame, vendor: str) -> pl.Expr:
    """The time in ns of a library's kernels that only change a layout, launched by an operator of another class."""
    names = [] if traits(vendor).typed else rows["name"].unique().to_list()
    return pl.when(pl.col("name").is_in([name for name in names if is_layout_kernel(name)])).then("dur_ns").otherwise(0)


def _again(rows: pl.DataFrame, again: Intervals | None) -> pl.Series:
    """The time in ns of kernels that were launched in one of the intervals."""
    durations = rows["dur_ns"].to_numpy()
    if again is None or not len(again):
        return pl.Series(np.zeros(len(durations), dtype=np.int64))
    launches = rows["launch_ns"].fill_null(np.iinfo(np.int64).min).to_numpy()
    place = np.searchsorted(again.starts, launches, side="right") - 1
    inside = (place >= 0) & (launches < again.ends[np.maximum(place, 0)])
    return pl.Series(np.where(inside, durations, 0))


def _parts(
    rows: pl.DataFrame,
    vendor: str,
    chip: Chip | None,
    cubes: int | None,
    pmu: pl.DataFrame | None,
    frequency: pl.DataFrame | None,
) -> list[pl.Series]:
    """For each kernel, the values that the sums of `RankCompute.steps` add up."""
    durations = rows["dur_ns"].to_numpy().astype(np.float64)
    own = (rows["unit"] == "ai_cpu").fill_null(value=False).to_numpy()
    mhz = _clock(rows, frequency)
    mhz[own] = np.nan
    clocked = ~np.isnan(mhz)
    idle = _idle(rows, vendor, chip, cubes)
    units = _busy_units(rows, pmu)
    slack = np.maximum(0.0, 1 - np.maximum.reduce([*units.values()]) / BUSY_PIPE)
    idle[own] = slack[own] = np.nan
    told, piped = ~np.isnan(idle), ~np.isnan(slack)
    idle, slack = np.nan_to_num(idle), np.nan_to_num(slack)
    cycles = durations * np.nan_to_num(mhz)
    plain = np.where(clocked, 0.0, durations)
    values: dict[str, Floats] = {
        "clocked_ns": np.where(clocked, durations, 0.0),
        "cycles": cycles,
        "idle_cycles": cycles * idle,
        "idle_ns": plain * idle,
        "slack_cycles": cycles * (1 - idle) * slack,
        "slack_ns": plain * (1 - idle) * slack,
        "told_ns": durations * told,
        "piped_ns": durations * piped,
    }
    values |= {unit: durations * np.where(piped, np.nan_to_num(busy), 0.0) for unit, busy in units.items()}
    return [pl.Series(name, values[name]) for name in _SUMS]


def _clock(rows: pl.DataFrame, frequency: pl.DataFrame | None) -> Floats:
    """The mean clock of each kernel in MHz: a sample holds until the next; nan before the first sample."""
    if frequency is None or not frequency.height:
        return np.full(rows.height, np.nan)
    samples = frequency.group_by("ts_ns", maintain_order=True).agg(pl.col("value").mean()).sort("ts_ns")
    moments, values = samples["ts_ns"].to_numpy(), samples["value"].to_numpy()
    turned = np.concatenate([[0.0], np.cumsum(np.diff(moments) * values[:-1])])
    starts = rows["start_ns"].to_numpy()
    ends = starts + np.maximum(rows["dur_ns"].to_numpy(), 1)

    def until(times: NDArray[np.int64]) -> Floats:
        place = np.maximum(np.searchsorted(moments, times, side="right") - 1, 0)
        result: Floats = turned[place] + (times - moments[place]) * values[place]
        return result

    mean: Floats = (until(ends) - until(starts)) / (ends - starts)
    mean[starts < moments[0]] = np.nan
    return mean


def _idle(rows: pl.DataFrame, vendor: str, chip: Chip | None, cubes: int | None) -> Floats:
    """The share of cores without a block in the rounds that a kernel's blocks take; nan if unknown.

    A GPU's core takes several blocks at once, so a GPU has idle cores only if a kernel has fewer blocks than cores.
    """
    blocks = rows["blocks"].cast(pl.Float64).to_numpy()
    blocks = np.where(np.nan_to_num(blocks) > 0, blocks, np.nan)
    if not traits(vendor).single_block:
        cores = np.full(rows.height, float(chip.cores) if chip else np.nan)
        return np.where(np.isnan(blocks + cores), np.nan, np.maximum(0.0, 1 - blocks / cores))
    matrix, vector = (
        (chip.cores, chip.vector_cores or chip.cores) if chip else (cubes or None, 2 * cubes if cubes else None)
    )
    units = rows["unit"].replace_strict(
        {"cube": matrix, "mix": matrix, "vector": vector}, default=None, return_dtype=pl.Float64
    )
    cores = units.to_numpy()
    idle: Floats = 1 - blocks / (np.ceil(blocks / cores) * cores)
    return idle


def _busy_units(rows: pl.DataFrame, pmu: pl.DataFrame | None) -> dict[CoreUnit, Floats]:
    """For each of `UNITS`, the share of each kernel's time in which the unit is busy; nan without counters.

    Of several pipes, or of cube and vector cores that a kernel uses both, the busiest one counts.
    """
    if pmu is None or not pmu.height:
        return {unit: np.full(rows.height, np.nan) for unit in UNITS}
    of_unit = {
        name: unit for unit, pipes in UNITS.items() for name in PIPES if any(f"{pipe}_ratio" in name for pipe in pipes)
    }
    found = (
        pmu.filter(pl.col("name").is_in(PIPES))
        .drop_nulls("value")
        .with_columns(pl.col("name").replace_strict(of_unit, return_dtype=pl.String).alias("unit"))
        .group_by("kernel_id", "unit")
        .agg(pl.col("value").max())
    )
    told = rows.select("kernel_id", pl.col("kernel_id").is_in(found["kernel_id"].implode()).alias("told"))
    busy: dict[CoreUnit, Floats] = {}
    for unit in UNITS:
        own = found.filter(pl.col("unit") == unit).select("kernel_id", "value")
        joined = told.join(own, on="kernel_id", how="left", maintain_order="left")
        value = pl.when("told").then(pl.col("value").fill_null(0.0))
        busy[unit] = joined.select(value.cast(pl.Float64).alias("value"))["value"].to_numpy()
    return busy


def _counted(pmu: pl.DataFrame | None, rows: pl.DataFrame) -> tuple[int | None, int | None]:
    """The chip's number of cubes and their clock in MHz, by counters of kernels on cubes; None without such counters.

    Cycles are summed over all blocks, the time is of one core: both together give the clock. The utilisation of the
    cubes gives their number. If it is not recorded, the number is the most blocks of any cube kernel: CANN gives each
    cube one block. A kernel of cube and vector cores may have few blocks, and does not count for that.
    """
    if pmu is None or not pmu.height:
        return None, None
    cube = rows.filter(pl.col("unit").is_in(["cube", "mix"]) & pl.col("blocks").is_not_null()).select(
        "kernel_id", "unit", "blocks", "dur_ns"
    )
    counters = pmu.filter(pl.col("name").is_in(CLOCKS) & pl.col("kernel_id").is_in(cube["kernel_id"].implode()))
    wide = cube.join(counters.pivot("name", index="kernel_id", values="value"), on="kernel_id")
    if not wide.height or not {*CLOCKS[:2]} <= set(wide.columns):
        return None, None
    wide = wide.with_columns((pl.col(CLOCKS[0]) / pl.col(CLOCKS[1]) / pl.col("blocks")).alias("mhz"))
    mhz = wide["mhz"].median()
    if not isinstance(mhz, float) or not 0 < mhz < 10_000:
        return None, None
    most = cube.filter(pl.col("unit") == "cube")["blocks"].max()
    if CLOCKS[2] in wide.columns:
        used = wide.select(
            (pl.col(CLOCKS[0]) / (pl.col("mhz") * pl.col("dur_ns") / 1e3 * pl.col(CLOCKS[2]) / 100)).alias("cubes")
        )["cubes"].median()
        if isinstance(used, float) and 0 < used < 1_000 and abs(used - round(used)) < 0.05:
            most = round(used)
    return (most if isinstance(most, int) else None), round(mhz)
