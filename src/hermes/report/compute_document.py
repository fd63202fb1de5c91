"""The part of the JSON document that is about compute."""

from __future__ import annotations

from collections.abc import Callable

from hermes.analyze.compute_measures import ChipUsed, Compute, KindCost, Losses, OperatorCost, StepCompute
from hermes.knowledge.chips import GIGA, TERA

OPERATORS = 500
"""Rows of operators that the document holds, the longest; their classes hold all."""

Text = Callable[[str], str]


def compute_document(compute: Compute, text: Text) -> dict[str, object]:
    """`compute` as JSON values; `text` makes texts of a trace harmless."""
    return {
        "chips": [_chip(row, text) for row in compute.chips],
        "steps": [_step(row) for row in compute.steps],
        "classes": [_kind(row, text) for row in compute.kinds],
        "operators": [_operator(row, text) for row in compute.operators[:OPERATORS]],
    }


def mfu_of(compute: Compute) -> dict[tuple[int, int | None], float | None]:
    """MFU by rank and step."""
    return {(row.rank, row.step): row.mfu for row in compute.steps}


def _chip(row: ChipUsed, text: Text) -> dict[str, object]:
    return {
        "ranks": list(row.ranks),
        "recorded": None if row.recorded is None else text(row.recorded),
        "chip": row.chip,
        "told_by": row.told_by,
        "rates": [{"precision": key, "tflops": value / TERA} for key, value in sorted(row.matrix.items())],
        "gb_per_s": None if row.bandwidth is None else row.bandwidth / GIGA,
        "cores": row.cores,
        "mhz": row.mhz,
        "sources": [{"figures": key, "source": value} for key, value in sorted(row.sources.items())],
    }


def _step(row: StepCompute) -> dict[str, object]:
    return {
        "rank": row.rank,
        "step": row.step,
        "kernels_ms": _ms(row.kernel_ns),
        "roofed_ms": _ms(row.roofed_ns),
        "flops": row.flops,
        "mfu": row.mfu,
        "known_share": row.known_share,
        **_losses(row.losses),
        "ai_cpu_ms": _ms(row.ai_cpu_ns),
        "cast_ms": _ms(row.cast_ns),
        "transpose_ms": _ms(row.transpose_ns),
        "conversion_ms": _ms(row.conversion_ns),
        "recompute_ms": _ms(row.recompute_ns),
        "over_peers_ms": _ms(row.over_peers_ns),
        "unaligned_ms": _ms(row.unaligned_ns),
        "mhz": row.mhz,
    }


def _kind(row: KindCost, text: Text) -> dict[str, object]:
    return {
        "class": text(row.kind),
        "calls": row.calls,
        "total_ms": _ms(row.ns),
        "share": row.share,
        "flops": row.flops,
        "bytes": row.bytes,
        "tflops": row.tflops,
        "gb_per_s": row.gb_per_s,
        "roofed_ms": _ms(row.roofed_ns),
        "roof_share": row.roof_share,
        **_losses(row.losses),
    }


def _operator(row: OperatorCost, text: Text) -> dict[str, object]:
    return {
        "class": text(row.kind),
        "operator": text(row.operator),
        "shapes": text(row.shapes),
        "dtypes": text(row.dtypes),
        "chip": row.chip,
        "ranks": list(row.ranks),
        "calls": row.calls,
        "kernels": row.kernels,
        "total_ms": _ms(row.ns),
        "share": row.share,
        "median_ms": _ms(row.median_ns),
        "flops": row.flops,
        "bytes": row.bytes,
        "precision": row.precision,
        "tflops": row.tflops,
        "gb_per_s": row.gb_per_s,
        "limit": row.limit,
        "roof_share": row.roof_share,
        "bound": row.bound,
        **_losses(row.losses),
        "aligned": row.aligned,
        "note": text(row.note),
    }


def _losses(row: Losses) -> dict[str, object]:
    return {
        "frequency_ms": _ms(row.frequency_ns),
        "blocks_ms": _ms(row.blocks_ns),
        "pipe_ms": _ms(row.pipe_ns),
        "layout_ms": _ms(row.layout_ns),
    }


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1_000_000
