"""What the compute of all ranks is against the roofs of their chips: by signature, by class, by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any, Literal

import polars as pl

from hermes.analyze.compute import SIGNATURE, RankCompute
from hermes.analyze.compute_measures import (
    NO_COMPUTE,
    Bound,
    ChipUsed,
    Compute,
    KindCost,
    Losses,
    OperatorCost,
    StepCompute,
)
from hermes.analyze.measures import StepSplit
from hermes.cost.operator import ALIGNMENT, BOUND, Roof, classified, inner_bytes, roof, work_of
from hermes.cost.tensors import Call, tensors
from hermes.cost.work import Work
from hermes.knowledge.chips import Chip, by_counters, is_family
from hermes.knowledge.dtypes import element_type
from hermes.knowledge.operators import LAYOUT, MATRIX, kind_of_kernel

_LOOKED_AT = 4_000
"""Signatures of a rank whose formulas are tried, the longest first: dynamic shapes make tens of thousands."""
_PEERS = 3
"""Ranks from which on a median means something."""

Told = Literal["name", "counters", "other ranks", "nothing"]
Frame = pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One signature of one rank: its class, its work, its roof on the rank's chip (of one call), its alignment."""

    row: Mapping[str, Any]
    kind: str
    work: Work | None
    roof: Roof | None
    aligned: bool | None


def compute_of(ranks: Sequence[RankCompute], splits: Sequence[StepSplit]) -> Compute:
    """The compute part of a report, of ranks in any order."""
    if not ranks:
        return NO_COMPUTE
    ranks = sorted(ranks, key=lambda one: one.rank)
    chips = _chips(ranks)
    rated = {one.rank: _rated(one, chips[one.rank][0], ranks) for one in ranks}
    entries = {one.rank: _entries(one, chips[one.rank][0]) for one in ranks}
    typical = _typical(entries)
    losses = {one.rank: _with_losses(one, rated[one.rank]) for one in ranks}
    windows = {(split.rank, split.step): split.window_ns for split in splits}
    whole = {split.rank for split in splits if split.step is None}
    steps = [
        row
        for one in ranks
        for row in _steps(
            one, losses[one.rank], entries[one.rank], chips[one.rank][0], typical, windows, one.rank in whole
        )
    ]
    operators = _operators(ranks, entries, losses, chips)
    return Compute(chips=_used(ranks, chips), steps=tuple(steps), kinds=_kinds(operators, entries), operators=operators)


def _chips(ranks: Sequence[RankCompute]) -> dict[int, tuple[Chip | None, Told]]:
    """The chip of each rank: by its name, else by its counters, else as other ranks of the same recorded name."""
    found: dict[int, tuple[Chip | None, Told]] = {}
    for one in ranks:
        if one.chip is not None:
            found[one.rank] = (one.chip, "name")
        elif one.vendor == "ascend" and is_family(one.recorded) and one.cubes and one.clock:
            found[one.rank] = (by_counters(one.cubes, one.clock), "counters")
        else:
            found[one.rank] = (None, "nothing")
    # Counters of a rank whose clock has fallen show another chip than those of its peers.
    for one in ranks:
        chip, told = found[one.rank]
        if told in ("counters", "nothing") and one.vendor == "ascend" and (chip is None or chip.bandwidth is None):
            peers = {
                peer.name: peer
                for other in ranks
                if other.recorded == one.recorded and found[other.rank][1] == "counters"
                if (peer := found[other.rank][0]) is not None
                if peer.bandwidth is not None
            }
            if len(peers) == 1:
                (peer,) = peers.values()
                found[one.rank] = (peer, "other ranks") if one.cubes in (None, peer.cores) else found[one.rank]
    return found


def _rated(one: RankCompute, chip: Chip | None, ranks: Sequence[RankCompute]) -> float | None:
    """The clock in MHz that counts as full: the chip's, or the highest that any rank of the same name was seen at."""
    seen = [other.top_mhz for other in ranks if other.recorded == one.recorded and other.top_mhz is not None]
    rated = [float(chip.mhz)] if chip and chip.mhz else []
    return max(rated + seen, default=None)


def _entries(one: RankCompute, chip: Chip | None) -> dict[int, _Entry]:
    rows = one.signatures.sort("ns", "operator", descending=[True, False], maintain_order=True)
    found: dict[int, _Entry] = {}
    for at, row in enumerate(rows.iter_rows(named=True)):
        texts = tuple(row[name] for name in SIGNATURE)
        kind, work, inner = _look(texts, row["kernel"] or "", row["nameless"], at < _LOOKED_AT)
        own = None
        if work is not None and chip is not None:
            own = roof(work, chip, _shown_kernel(one, row), row["median_ns"])
        tile = ALIGNMENT.get(one.vendor)
        aligned = all(size % tile == 0 for size in inner) if tile and inner else None
        found[row["key"]] = _Entry(row=row, kind=kind, work=work, roof=own, aligned=aligned)
    return found


def _shown_kernel(one: RankCompute, row: Mapping[str, Any]) -> str:
    # Ascend's operators are told by their type; the kernels of others by their own names.
    return str(row["operator"] if one.vendor == "ascend" else row["kernel"] or "")


@lru_cache(maxsize=32_768)
def _look(
    texts: tuple[str | None, ...], kernel: str, nameless: bool, formula: bool
) -> tuple[str, Work | None, tuple[int, ...]]:
    """Class, work and inner axes of a signature; by the kernel's name where no operator is named, or no known one."""
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
        # Types are recorded and no shape: a number on its way to Python, or a counter. What it costs is the call.
        return "other", None, ()
    return (kind, work_of(call), inner_bytes(call)) if formula else (kind, None, ())


def _with_losses(one: RankCompute, rated: float | None) -> Frame:
    """The rows by step with `frequency`, `blocks` and `pipes` in nanoseconds, each of what the ones before leave."""
    full = rated or 1.0
    return one.steps.with_columns(
        (pl.col("clocked_ns") - pl.col("cycles") / full).clip(0).alias("frequency"),
        (pl.col("idle_ns") + pl.col("idle_cycles") / full).alias("blocks"),
        (pl.col("slack_ns") + pl.col("slack_cycles") / full).alias("pipes"),
    )


def _losses(rows: Frame, layout_ns: int) -> Losses:
    sums = rows.select(
        pl.col("clocked_ns", "told_ns", "piped_ns", "frequency", "blocks", "pipes").sum()
    ).row(0, named=True)  # fmt: skip

    def told(part: str, by: str) -> int | None:
        return round(sums[part]) if sums[by] > 0 else None

    return Losses(
        frequency_ns=told("frequency", "clocked_ns"),
        blocks_ns=told("blocks", "told_ns"),
        pipe_ns=told("pipes", "piped_ns"),
        layout_ns=layout_ns,
    )


def _typical(entries: Mapping[int, Mapping[int, _Entry]]) -> dict[int, float]:
    """What a call of each signature takes on the median rank, of those that several ranks have."""
    means: dict[int, list[float]] = {}
    for own in entries.values():
        for key, entry in own.items():
            means.setdefault(key, []).append(entry.row["ns"] / entry.row["calls"])
    return {key: median(values) for key, values in means.items() if len(values) >= _PEERS}


def _steps(
    one: RankCompute,
    rows: Frame,
    entries: Mapping[int, _Entry],
    chip: Chip | None,
    typical: Mapping[int, float],
    windows: Mapping[tuple[int, int | None], int],
    whole: bool,
) -> list[StepCompute]:
    # Without marks of steps the capture is one; else work of no step of the capture is left out.
    if whole:
        rows = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("step"))
    parts = rows.partition_by("step", as_dict=True, maintain_order=True)
    wanted = [step for (step,) in parts if (one.rank, step) in windows]
    return [
        _step(one, step, parts[(step,)], entries, chip, typical, windows[one.rank, step])
        for step in sorted(wanted, key=lambda step: -1 if step is None else step)
    ]


def _step(
    one: RankCompute,
    step: int | None,
    rows: Frame,
    entries: Mapping[int, _Entry],
    chip: Chip | None,
    typical: Mapping[int, float],
    window_ns: int,
) -> StepCompute:
    table = rows.select("key", "ns", "calls", "again_calls", "layout_ns").iter_rows()
    by_kind: dict[str, int] = {}
    roofed = flops = known = matrix = conversions = unaligned = 0
    tiled = False
    peers = 0.0
    best: list[float] = []
    compared = False
    for key, ns, calls, again, layout in table:
        entry = entries[key]
        by_kind[entry.kind] = by_kind.get(entry.kind, 0) + ns
        conversions += layout if entry.kind != "format conversion" else 0
        roofed += ns if _fits(entry) else 0
        if entry.kind in MATRIX:
            matrix += ns
        if entry.aligned is not None:
            tiled = True
            unaligned += 0 if entry.aligned else ns
        if entry.work is not None and entry.work.unit == "matrix":
            flops += entry.work.flops * calls
            known += ns if entry.kind in MATRIX else 0
            if entry.roof is not None:
                best.append((calls - again) * entry.work.flops / entry.roof.peak * 1e9)
        if key in typical:
            compared = True
            peers += ns - calls * typical[key]
    sums = rows.select(pl.col("ns", "ai_cpu_ns", "again_ns", "clocked_ns", "cycles").sum()).row(0, named=True)
    layout_ns = sum(by_kind.get(kind, 0) for kind in LAYOUT) + conversions
    return StepCompute(
        rank=one.rank,
        step=step,
        kernel_ns=sums["ns"],
        roofed_ns=roofed,
        flops=flops if known else None,
        # Exactly summed: the order of the rows must not matter.
        mfu=math.fsum(best) / window_ns if chip is not None and any(best) and window_ns > 0 else None,
        known_share=known / matrix if matrix else None,
        losses=_losses(rows, layout_ns),
        ai_cpu_ns=sums["ai_cpu_ns"] if one.has_units and one.vendor == "ascend" else None,
        cast_ns=by_kind.get("cast", 0),
        transpose_ns=by_kind.get("transpose", 0),
        conversion_ns=by_kind.get("format conversion", 0) + conversions,
        recompute_ns=sums["again_ns"] if one.has_launches else None,
        over_peers_ns=round(peers) if compared else None,
        unaligned_ns=unaligned if tiled else None,
        mhz=sums["cycles"] / sums["clocked_ns"] if sums["clocked_ns"] else None,
    )


def _fits(entry: _Entry) -> bool:
    """Whether the entry has a roof that its time does not undercut."""
    return entry.roof is not None and entry.roof.ns <= entry.row["median_ns"]


def _operators(
    ranks: Sequence[RankCompute],
    entries: Mapping[int, Mapping[int, _Entry]],
    losses: Mapping[int, Frame],
    chips: Mapping[int, tuple[Chip | None, Told]],
) -> tuple[OperatorCost, ...]:
    """Rows of one signature and one chip added up over ranks; the median is the median of the ranks' medians."""
    parts: dict[tuple[int, str | None], list[int]] = {}
    for one in ranks:
        chip = chips[one.rank][0]
        for key in entries[one.rank]:
            parts.setdefault((key, chip.name if chip else None), []).append(one.rank)
    total = sum(entry.row["ns"] for own in entries.values() for entry in own.values()) or 1
    lost = _lost_by_key(losses, {rank: chips[rank][0].name if chips[rank][0] else None for rank in entries})  # type: ignore[union-attr]
    units = {one.rank for one in ranks if one.has_units and one.vendor == "ascend"}
    rows = [
        replace(
            _operator([entries[rank][key] for rank in own], own, chip, total, lost[key, chip][0]),
            ai_cpu_ns=lost[key, chip][1] if units.intersection(own) else None,
        )
        for (key, chip), own in parts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.ns, row.operator, row.shapes, row.dtypes, row.chip or "")))


def _lost_by_key(
    losses: Mapping[int, Frame], chips: Mapping[int, str | None]
) -> dict[tuple[int, str | None], tuple[Losses, int]]:
    """Losses of each signature and chip over all ranks, and its time on AI CPU."""
    frames = [rows.with_columns(pl.lit(chips[rank], dtype=pl.String).alias("chip")) for rank, rows in losses.items()]
    names = ("clocked_ns", "told_ns", "piped_ns", "frequency", "blocks", "pipes", "layout_ns", "ai_cpu_ns")
    sums = pl.concat(frames).group_by("key", "chip", maintain_order=True).agg(pl.col(names).sum())
    found: dict[tuple[int, str | None], tuple[Losses, int]] = {}
    for row in sums.iter_rows(named=True):
        found[row["key"], row["chip"]] = (
            Losses(
                frequency_ns=round(row["frequency"]) if row["clocked_ns"] > 0 else None,
                blocks_ns=round(row["blocks"]) if row["told_ns"] > 0 else None,
                pipe_ns=round(row["pipes"]) if row["piped_ns"] > 0 else None,
                layout_ns=row["layout_ns"],
            ),
            row["ai_cpu_ns"],
        )
    return found


def _operator(
    own: Sequence[_Entry], ranks: Sequence[int], chip: str | None, total: int, losses: Losses
) -> OperatorCost:
    first = own[0]
    typical = round(median(entry.row["median_ns"] for entry in own))
    ns = sum(entry.row["ns"] for entry in own)
    work, top = first.work, first.roof
    share, note = _share(work, top, typical)
    if first.kind in LAYOUT:
        losses = Losses(
            frequency_ns=losses.frequency_ns, blocks_ns=losses.blocks_ns, pipe_ns=losses.pipe_ns, layout_ns=ns
        )
    return OperatorCost(
        kind=first.kind,
        operator=first.row["operator"] or "",
        shapes=first.row["input_shapes"] or "",
        dtypes=first.row["input_dtypes"] or "",
        chip=chip,
        ranks=tuple(ranks),
        calls=sum(entry.row["calls"] for entry in own),
        kernels=sum(entry.row["kernels"] for entry in own),
        ns=ns,
        share=ns / total,
        median_ns=typical,
        flops=work.flops if work else None,
        bytes=work.bytes if work else None,
        precision=top.precision if top and work and work.unit == "matrix" else work.precision if work else "",
        tflops=work.flops / typical / 1e3 if work and work.flops and typical else None,
        gb_per_s=work.bytes / typical if work and work.bytes is not None and typical else None,
        limit=top.limit if top else None,
        roof_share=share,
        bound=_bound(top, share),
        losses=losses,
        aligned=first.aligned,
        note=note,
    )


def _share(work: Work | None, top: Roof | None, ns: int) -> tuple[float | None, str]:
    """How near the roof, and what must be said of it: nothing runs faster than its roof, so the roof is wrong then."""
    if work is None:
        return None, "no formula, or shapes that do not fit it"
    if top is None:
        return None, work.note
    if not ns:
        return None, "took no time"
    if top.ns > ns and top.limit == "memory":
        return None, "faster than its memory allows: what it reads came from a cache"
    if top.ns > ns:
        return (
            None,
            f"faster than the peak of {top.precision}: it computed in another type, or less than its shapes say",
        )
    return top.ns / ns, work.note


def _bound(top: Roof | None, share: float | None) -> Bound | None:
    if top is None or share is None:
        return None
    return top.limit if share >= BOUND else "neither"


def _kinds(operators: Sequence[OperatorCost], entries: Mapping[int, Mapping[int, _Entry]]) -> tuple[KindCost, ...]:
    best: dict[str, float] = {}
    for own in entries.values():
        for entry in own.values():
            if _fits(entry) and entry.roof is not None:
                best[entry.kind] = best.get(entry.kind, 0.0) + entry.roof.ns * entry.row["calls"]
    rows = []
    for kind in sorted({row.kind for row in operators}):
        own_rows = [row for row in operators if row.kind == kind]
        rows.append(_kind(kind, own_rows, best.get(kind, 0.0)))
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
