"""Compares the compute of all ranks with their chips' rooflines: by signature, class and step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Literal

import polars as pl

from hermes.knowledge.cost.operator import BOUND
from hermes.knowledge.fused_kernels import fused_kind
from hermes.knowledge.identify_chip import Chip
from hermes.knowledge.operators import LAYOUT, MATRIX
from hermes.knowledge.vendor_traits import traits
from hermes.model.compute_measures import Bound, ChipUsed, CoreUnit, KindCost, Losses, OperatorCost, StepCompute
from hermes.model.step_measures import StepSplit
from hermes.profiles.measure.compute.kernel_sums import UNITS, RankCompute
from hermes.profiles.measure.compute.operator_signatures import looked_up, own_chip
from hermes.profiles.measure.stack_rank_tables import stacked

_TWO = 2
"""Two ranks have no median: for each of them the other rank's time is taken."""
_AT_ONCE = 256
"""The number of ranks whose rows are summed by step at once: rows of all ranks would need too much memory."""
_SUMS = ("clocked_ns", "told_ns", "piped_ns", "frequency", "blocks", "pipes", *UNITS)

Told = Literal["name", "counters", "other ranks", "nothing"]
Frame = pl.DataFrame
_NO_ROWS = pl.DataFrame()


def compute_of(told: Iterable[RankCompute], splits: Iterable[StepSplit]) -> tuple[object, ...]:
    """The compute rows of ranks in any order; operators and their kinds by time, the longest first.

    The frames of the ranks are released as soon as they are used.
    """
    ranks = sorted(told, key=lambda one: one.rank)
    if not ranks:
        return ()
    chips = _chips(ranks)
    fastest = _fastest(ranks)
    names = {one.rank: chip.name for one in ranks if (chip := chips[one.rank][0]) is not None}
    rated = {one.rank: _rated(one, chips, fastest) or 1.0 for one in ranks}
    of_chip = pl.col("rank").replace_strict(names, default=None, return_dtype=pl.String).alias("chip")
    signatures = stacked((one.rank, _signatures(one, chips[one.rank][0])) for one in ranks).with_columns(of_chip)
    rows = _with_losses(stacked((one.rank, one.steps) for one in ranks), rated).with_columns(of_chip)
    ranks = [replace(one, signatures=_NO_ROWS, steps=_NO_ROWS) for one in ranks]
    operators = _operators(ranks, signatures, rows)
    steps = _steps(ranks, signatures, rows, splits)
    return (*_used(ranks, chips), *steps, *_kinds(operators, signatures), *operators)


def _signatures(one: RankCompute, chip: Chip | None) -> Frame:
    """The signatures of a rank for this chip: as the rank looked them up if it used the same chip."""
    return one.signatures if one.looked == (chip.name if chip else "") else looked_up(one, chip)


def _chips(ranks: Sequence[RankCompute]) -> dict[int, tuple[Chip | None, Told]]:
    """The chip of each rank: by its name, else by its counters, else as on other ranks of the same recorded name."""
    found: dict[int, tuple[Chip | None, Told]] = {}
    peers: dict[str | None, dict[str, Chip]] = {}
    for one in ranks:
        chip = own_chip(one)
        found[one.rank] = (chip, "name" if one.chip is not None else "counters" if chip is not None else "nothing")
        if found[one.rank][1] == "counters" and chip is not None and chip.bandwidth is not None:
            peers.setdefault(one.recorded, {})[chip.name] = chip
    # Counters of a rank whose clock has fallen suggest another chip than its peers' counters.
    for one in ranks:
        chip, told = found[one.rank]
        others = peers.get(one.recorded, {})
        unknown = told != "name" and traits(one.vendor).counters and (chip is None or chip.bandwidth is None)
        if unknown and len(others) == 1:
            (peer,) = others.values()
            if one.cubes in (None, peer.cores):
                found[one.rank] = (peer, "other ranks")
    return found


def _fastest(ranks: Sequence[RankCompute]) -> Mapping[str | None, float]:
    """The highest clock in MHz at which any rank of a recorded chip name was seen."""
    found: dict[str | None, float] = {}
    for one in ranks:
        if one.top_mhz is not None:
            found[one.recorded] = max(one.top_mhz, found.get(one.recorded, one.top_mhz))
    return found


def _rated(
    one: RankCompute, chips: Mapping[int, tuple[Chip | None, Told]], fastest: Mapping[str | None, float]
) -> float | None:
    """The clock in MHz that counts as full: the chip's, or the highest seen on any rank of the same chip name."""
    chip = chips[one.rank][0]
    known = [float(chip.mhz)] if chip and chip.mhz else []
    return max([*known, *([fastest[one.recorded]] if one.recorded in fastest else [])], default=None)


def _with_losses(rows: Frame, rated: Mapping[int, float]) -> Frame:
    """The rows by step with the losses `frequency`, `blocks` and `pipes` in ns, each of the time left before it."""
    full = pl.col("rank").replace_strict(rated, return_dtype=pl.Float64)
    return rows.with_columns(
        (pl.col("clocked_ns") - pl.col("cycles") / full).clip(0).alias("frequency"),
        (pl.col("idle_ns") + pl.col("idle_cycles") / full).alias("blocks"),
        (pl.col("slack_ns") + pl.col("slack_cycles") / full).alias("pipes"),
    )


def _losses(sums: Mapping[str, Any], layout_ns: int) -> Losses:
    def told(part: str, by: str) -> int | None:
        return round(sums[part]) if sums[by] > 0 else None

    return Losses(
        frequency_ns=told("frequency", "clocked_ns"),
        blocks_ns=told("blocks", "told_ns"),
        pipe_ns=told("pipes", "piped_ns"),
        layout_ns=layout_ns,
    )


_FITS = (pl.col("roof_ns") <= pl.col("median_ns")).fill_null(value=False)
"""Whether a signature has a roof that its measured time does not undercut."""


def _typical() -> pl.Expr:
    """The usual time in ns of a call of each signature: the median rank's; with two ranks, the other rank's."""
    each = pl.col("ns") / pl.col("calls")
    ranks = pl.len().over("key")
    return pl.when(ranks > _TWO).then(each.median().over("key")).when(ranks == _TWO).then(each.sum().over("key") - each)


def _steps(
    ranks: Sequence[RankCompute], signatures: Frame, rows: Frame, splits: Iterable[StepSplit]
) -> tuple[StepCompute, ...]:
    """One row for each step of each rank that has a window."""
    splits = list(splits)
    windows = {(split.rank, split.step): split.window_ns for split in splits}
    known = pl.DataFrame(list(windows), schema={"rank": pl.Int64, "step": pl.Int64}, orient="row").with_columns(
        pl.Series("window_ns", list(windows.values()), dtype=pl.Int64)
    )
    # If no step is marked the capture counts as one step; else work outside the steps is left out.
    whole = pl.col("rank").is_in(sorted({split.rank for split in splits if split.step is None}))
    rows = rows.with_columns(pl.when(whole).then(None).otherwise("step").alias("step"))
    of_key = signatures.select(
        "rank", "key", "kind", "flops", "unit", "aligned", "roof_peak", _FITS.alias("fits"),
        _typical().alias("typical_ns"), _met(signatures).alias("met"),
    )  # fmt: skip
    by_rank = {one.rank: one for one in ranks}
    found: list[StepCompute] = []
    for first in range(0, len(ranks), _AT_ONCE):
        here = pl.col("rank").is_between(ranks[first].rank, ranks[first : first + _AT_ONCE][-1].rank)
        every = (
            rows.filter(here)
            .join(known, on=["rank", "step"], how="inner", nulls_equal=True, maintain_order="left")
            .join(of_key.filter(here), on=["rank", "key"], how="left", maintain_order="left")
        )
        found += [_step(by_rank[row["rank"]], row) for row in _summed(every).iter_rows(named=True)]
    return tuple(found)


def _met(signatures: Frame) -> pl.Expr:
    """Whether a signature is of kernels that also communicate: their extra time on a rank is waiting for others."""
    names = [name for name in signatures["operator"].drop_nulls().unique().to_list() if fused_kind(name) is not None]
    return pl.col("operator").is_in(names).fill_null(value=False)


def _summed(every: Frame) -> Frame:
    """The rows of some ranks by step, in order."""
    ns, kind, calls = pl.col("ns"), pl.col("kind"), pl.col("calls")
    product, matrix = pl.col("unit").eq_missing("matrix"), kind.is_in(MATRIX)
    best = (calls - pl.col("again_calls")).cast(pl.Int64) * pl.col("flops") / pl.col("roof_peak") * 1e9
    return (
        every.group_by("rank", "step", maintain_order=True)
        .agg(
            ns.filter("fits").sum().alias("roofed_ns"),
            (pl.col("flops") * calls).filter(product).sum().alias("flops"),
            ns.filter(product & matrix).sum().alias("known_ns"),
            ns.filter(matrix).sum().alias("matrix_ns"),
            pl.col("layout_ns").filter(kind != "format conversion").sum().alias("conversions_ns"),
            *(ns.filter(kind == name).sum().alias(name) for name in LAYOUT),
            pl.col("aligned").is_not_null().any().alias("tiled"),
            ns.filter(pl.col("aligned").eq_missing(pl.lit(value=False))).sum().alias("unaligned_ns"),
            best.filter(product & pl.col("roof_peak").is_not_null()).alias("best"),
            (ns - calls * pl.col("typical_ns")).filter(~pl.col("met")).drop_nulls().alias("over_peers"),
            pl.col("ns", "ai_cpu_ns", "again_ns").sum(),
            pl.col("cycles", *_SUMS),
            pl.col("chip", "window_ns").first(),
        )
        # A sum over a list adds only its own rows, whatever else the frame holds.
        .with_columns(pl.col("cycles", *_SUMS).list.sum())
        .sort("rank", "step", nulls_last=False)
    )


def _step(one: RankCompute, row: Mapping[str, Any]) -> StepCompute:
    layout_ns = sum(row[kind] for kind in LAYOUT) + row["conversions_ns"]
    timed = row["chip"] is not None and any(row["best"]) and row["window_ns"] > 0
    return StepCompute(
        rank=one.rank,
        step=row["step"],
        kernel_ns=row["ns"],
        roofed_ns=row["roofed_ns"],
        flops=row["flops"] if row["known_ns"] else None,
        # Exact sums: the order of the rows must not matter.
        mfu=math.fsum(row["best"]) / row["window_ns"] if timed else None,
        known_share=row["known_ns"] / row["matrix_ns"] if row["matrix_ns"] else None,
        losses=_losses(row, layout_ns),
        ai_cpu_ns=row["ai_cpu_ns"] if one.has_units and traits(one.vendor).counters else None,
        cast_ns=row["cast"],
        transpose_ns=row["transpose"],
        conversion_ns=row["format conversion"] + row["conversions_ns"],
        recompute_ns=row["again_ns"] if one.has_launches else None,
        over_peers_ns=round(sum(row["over_peers"])) if row["over_peers"] else None,
        unaligned_ns=row["unaligned_ns"] if row["tiled"] else None,
        mhz=row["cycles"] / row["clocked_ns"] if row["clocked_ns"] else None,
    )


def _operators(ranks: Sequence[RankCompute], signatures: Frame, rows: Frame) -> tuple[OperatorCost, ...]:
    """Rows of one signature and chip added up over ranks; the median is the median of the ranks' medians."""
    total = int(signatures["ns"].sum()) or 1
    units = {one.rank for one in ranks if one.has_units and traits(one.vendor).counters}
    lost = rows.group_by("key", "chip", maintain_order=True).agg(pl.col(*_SUMS, "layout_ns", "ai_cpu_ns").sum())
    firsts = (
        "kind", "operator", "input_shapes", "input_dtypes", "flops", "work_bytes", "unit", "precision", "note",
        "aligned", "roof_ns", "roof_precision", "roof_limit",
    )  # fmt: skip
    summed = signatures.group_by("key", "chip", maintain_order=True).agg(
        *(pl.col(name).first() for name in firsts),
        pl.col("rank").alias("ranks"),
        pl.col("median_ns").alias("medians"),
        pl.col("calls", "kernels", "ns").sum(),
    )
    joined = summed.join(lost, on=["key", "chip"], how="left", nulls_equal=True, maintain_order="left")
    found = [_operator(row, total, units) for row in joined.iter_rows(named=True)]
    return tuple(sorted(found, key=lambda row: (-row.ns, row.operator, row.shapes, row.dtypes, row.chip or "")))


def _operator(row: Mapping[str, Any], total: int, units: set[int]) -> OperatorCost:
    typical = round(median(row["medians"]))
    flops, size = row["flops"], row["work_bytes"]
    share, note = _share(row, typical)
    product = row["roof_ns"] is not None and row["unit"] == "matrix"
    unit = _busiest(row)
    return OperatorCost(
        kind=row["kind"],
        operator=row["operator"] or "",
        shapes=row["input_shapes"] or "",
        dtypes=row["input_dtypes"] or "",
        chip=row["chip"],
        ranks=tuple(row["ranks"]),
        calls=row["calls"],
        kernels=row["kernels"],
        ns=row["ns"],
        share=row["ns"] / total,
        median_ns=typical,
        flops=flops,
        bytes=size,
        precision=(row["roof_precision"] if product else row["precision"]) or "",
        tflops=flops / typical / 1e3 if flops and typical else None,
        gb_per_s=size / typical if size is not None and typical else None,
        limit=row["roof_limit"],
        roof_share=share,
        bound=_bound(row["roof_limit"], share),
        losses=_losses(row, row["ns"] if row["kind"] in LAYOUT else row["layout_ns"]),
        aligned=row["aligned"],
        note=note,
        busiest=unit,
        busiest_share=None if unit is None else min(row[unit] / row["piped_ns"], 1.0),
        ai_cpu_ns=row["ai_cpu_ns"] if units.intersection(row["ranks"]) else None,
    )


def _busiest(row: Mapping[str, Any]) -> CoreUnit | None:
    """The unit of the cores that is busy longest; None without counters."""
    busy: dict[CoreUnit, float] = {unit: row[unit] for unit in UNITS}
    longest = max(busy, key=lambda unit: busy[unit])
    return longest if row["piped_ns"] > 0 else None


def _share(row: Mapping[str, Any], ns: int) -> tuple[float | None, str]:
    """The share of the roof that an operator reaches, and a note; None if the operator runs faster than its roof."""
    if row["unit"] is None:
        return None, "no formula, or shapes that do not fit it"
    if row["roof_ns"] is None:
        return None, row["note"]
    if not ns:
        return None, "took no time"
    if row["roof_ns"] > ns and row["roof_limit"] == "memory":
        return None, "faster than its memory allows: what it reads came from a cache"
    if row["roof_ns"] > ns:
        return (
            None,
            f"faster than the peak of {row['roof_precision']}: it computed in another type, "
            "or less than its shapes say",
        )
    return row["roof_ns"] / ns, row["note"]


def _bound(limit: Bound | None, share: float | None) -> Bound | None:
    if limit is None or share is None:
        return None
    return limit if share >= BOUND else "neither"


def _kinds(operators: Sequence[OperatorCost], signatures: Frame) -> tuple[KindCost, ...]:
    least = signatures.filter(_FITS).group_by("kind").agg((pl.col("roof_ns") * pl.col("calls")).alias("least"))
    best = {kind: sum(values) for kind, values in least.iter_rows()}
    by_kind: dict[str, list[OperatorCost]] = {}
    for row in operators:
        by_kind.setdefault(row.kind, []).append(row)
    rows = [_kind(kind, own, best.get(kind, 0.0)) for kind, own in sorted(by_kind.items())]
    return tuple(sorted(rows, key=lambda row: (-row.ns, row.kind)))


def _kind(kind: str, rows: Sequence[OperatorCost], best: float) -> KindCost:
    counted = [row for row in rows if row.flops is not None]
    moved = [row for row in rows if row.bytes is not None]
    roofed = sum(row.ns for row in rows if row.roof_share is not None)
    flops = sum(row.flops * row.calls for row in counted if row.flops is not None)
    size = sum(row.bytes * row.calls for row in moved if row.bytes is not None)
    counted_ns, moved_ns = sum(row.ns for row in counted), sum(row.ns for row in moved)

    def sum_of(values: Sequence[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    return KindCost(
        kind=kind,
        calls=sum(row.calls for row in rows),
        ns=sum(row.ns for row in rows),
        share=sum(row.share for row in rows),
        flops=flops if counted else None,
        bytes=size if moved else None,
        tflops=flops / counted_ns / 1e3 if flops and counted_ns else None,
        gb_per_s=size / moved_ns if moved_ns else None,
        roofed_ns=roofed,
        roof_share=min(best / roofed, 1.0) if roofed else None,
        losses=Losses(
            frequency_ns=sum_of([row.losses.frequency_ns for row in rows]),
            blocks_ns=sum_of([row.losses.blocks_ns for row in rows]),
            pipe_ns=sum_of([row.losses.pipe_ns for row in rows]),
            layout_ns=sum(row.losses.layout_ns for row in rows),
        ),
    )


def _used(ranks: Sequence[RankCompute], chips: Mapping[int, tuple[Chip | None, Told]]) -> tuple[ChipUsed, ...]:
    parts: dict[tuple[str | None, str | None, Told], list[RankCompute]] = {}
    for one in ranks:
        chip, told = chips[one.rank]
        parts.setdefault((one.recorded, chip.name if chip else None, told), []).append(one)
    found = []
    for (recorded, name, told), own in parts.items():
        chip = chips[own[0].rank][0]
        found.append(
            ChipUsed(
                ranks=tuple(one.rank for one in own),
                recorded=recorded,
                chip=name,
                told_by=told,
                matrix=dict(chip.matrix) if chip else {},
                bandwidth=chip.bandwidth if chip else None,
                cores=chip.cores if chip else None,
                mhz=chip.mhz if chip else None,
                sources=dict(chip.sources) if chip else {},
            )
        )
    return tuple(found)
