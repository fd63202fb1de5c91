"""Looks up each operator signature for a rank's chip: its class, formula and roofline.

A rank looks up its signatures for the chip that its own capture names. Some chips are known only after all ranks were
read; then the look-up is repeated for the ranks without a chip name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import polars as pl

from hermes.knowledge.cost.operator import ALIGNMENT, classified, float32_by_kernel, inner_bytes, roof, work_of
from hermes.knowledge.cost.tensors import Call, tensors
from hermes.knowledge.cost.work_formulas import OperatorWorkload
from hermes.knowledge.dtypes import element_type
from hermes.knowledge.identify_chip import Chip, chip_by_counters, is_family
from hermes.knowledge.operators import MATRIX, kind_of_kernel
from hermes.knowledge.vendor_traits import traits
from hermes.model.compute_measures import OTHERS
from hermes.profiles.measure.compute.kernel_sums import SIGNATURE, RankCompute

_LOOKED_AT = 4_000
"""The most signatures of a rank whose formulas are tried, longest first: dynamic shapes make tens of thousands."""
MOST_ROWS = 12_000
"""The most rows of signatures by step that a rank may send.

Beyond, the signatures with least time become one row for each class.
"""
_LOOKED = {
    "kind": pl.String, "flops": pl.Int64, "work_bytes": pl.Int64, "unit": pl.String, "precision": pl.String,
    "note": pl.String, "aligned": pl.Boolean, "roof_ns": pl.Float64, "roof_peak": pl.Float64,
    "roof_precision": pl.String, "roof_limit": pl.String,
}  # fmt: skip


def own_chip(one: RankCompute) -> Chip | None:
    """The chip of a rank from its own data: by its name, else by its counters."""
    if one.chip is not None:
        return one.chip
    counted = traits(one.vendor).counters and is_family(one.recorded) and one.cubes and one.clock
    return chip_by_counters(one.cubes or 0, one.clock or 0) if counted else None


def bounded_compute(one: RankCompute) -> RankCompute:
    """The compute of a rank in the form that it sends: looked up for its own chip, and bounded in size."""
    chip = own_chip(one)
    whole = replace(one, signatures=looked_up(one, chip), looked=chip.name if chip else "")
    if whole.steps.height <= MOST_ROWS and whole.signatures.height <= _LOOKED_AT:
        return whole
    most = min(_LOOKED_AT, max(1, MOST_ROWS // max(1, whole.steps["step"].n_unique())))
    few, rest = whole.signatures.head(most), whole.signatures.slice(most)
    kinds = {kind: number for number, kind in enumerate(sorted(rest["kind"].unique()))}
    number = pl.col("kind").replace_strict(kinds, return_dtype=pl.UInt64)
    names = rest.select("key", number.alias("class"))
    steps = (
        whole.steps.join(names, on="key", how="left", maintain_order="left")
        .with_columns(pl.coalesce("class", "key").alias("key"))
        .group_by("step", "key", maintain_order=True)
        .agg(pl.exclude("step", "key", "class").sum())
    )
    merged = rest.group_by("kind").agg(
        number.first().alias("key"),
        pl.format(f"{OTHERS} ({{}})", pl.col("kind").first()).alias("operator"),
        pl.col("calls", "kernels", "ns").sum(),
        pl.col("median_ns").median().round().cast(pl.Int64),
    )
    return replace(whole, signatures=pl.concat([few, merged.sort("kind")], how="diagonal"), steps=steps)


def looked_up(one: RankCompute, chip: Chip | None) -> pl.DataFrame:
    """The signatures of a rank, the longest first, with the columns `_LOOKED` for this chip.

    `flops`, `work_bytes` and the least time `roof_ns` that the chip needs are per call.
    """
    rows = one.signatures.drop([name for name in _LOOKED if name in one.signatures.columns])
    rows = rows.sort("ns", "operator", descending=[True, False], maintain_order=True)
    tile = ALIGNMENT.get(one.vendor)
    found: list[tuple[object, ...]] = []
    for at, row in enumerate(rows.iter_rows(named=True)):
        texts = tuple(row[name] for name in SIGNATURE)
        kind, work, inner = _look(texts, row["kernel"] or "", bool(row["nameless"]), at < _LOOKED_AT)
        # Ascend's operators are named by their type; other kernels by their own names.
        shown = str(row["operator"] if traits(one.vendor).typed else row["kernel"] or "")
        top = roof(work, chip, shown, row["median_ns"]) if work is not None and chip is not None else None
        aligned = all(size % tile == 0 for size in inner) if tile and inner else None
        precision = work.precision if work else None
        unknown = chip is None or work is None
        if unknown and traits(one.vendor).floats_in_names and kind in MATRIX and precision in (None, "fp32"):
            precision = float32_by_kernel(row["kernel"] or "")
        flops, size, unit, note = (work.flops, work.bytes, work.unit, work.note) if work else (None,) * 4
        of_roof = (top.ns, top.peak, top.precision, top.limit) if top else (None,) * 4
        found.append((kind, flops, size, unit, precision, note, aligned, *of_roof))
    return pl.concat([rows, pl.DataFrame(found, schema=_LOOKED, orient="row")], how="horizontal")


@lru_cache(maxsize=32_768)
def _look(
    texts: tuple[str | None, ...], kernel: str, nameless: bool, formula: bool
) -> tuple[str, OperatorWorkload | None, tuple[int, ...]]:
    """Class, work and inner axes of a signature; by the kernel's name if the operator is missing or unknown."""
    operator, shapes, dtypes, values, formats, out_shapes, out_dtypes, out_formats = texts
    if nameless:
        return kind_of_kernel(kernel), None, ()
    call = Call(
        name=operator or "",
        inputs=tensors(shapes, dtypes, formats),
        outputs=tensors(out_shapes, out_dtypes, out_formats),
        values=tuple((values or "").split(";")),
        dtypes=tuple((dtypes or "").split(";")),
        kernel=kernel,
    )
    kind = classified(call).kind
    if kind == "other":
        return kind_of_kernel(kernel), None, ()
    if kind == "cast" and element_type(call.dtypes[0]) is not None and not (shapes or "").strip(";"):
        # A call with types and no shape moves a number to Python, or is a counter: its cost is the call.
        return "other", None, ()
    return (kind, work_of(call), inner_bytes(call)) if formula else (kind, None, ())
