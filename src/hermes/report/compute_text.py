"""Describes on the terminal how well the verdict's step computes: the rate and the losses of its kernels."""

from __future__ import annotations

from hermes.model.compute_measures import ChipUsed, KindCost, StepCompute
from hermes.model.report import Report
from hermes.report.format import duration, fraction, share

_NOTABLE = 0.05
"""The share of a step's kernels from which the terminal shows a loss."""
_BUSY = 0.1
"""The share of a step's window from which the terminal describes the step's kernels."""


def compute_items(report: Report) -> list[str]:
    """Phrases about the compute of the verdict's step; empty if compute takes little of the step."""
    verdict = report.verdict
    chosen = [row for row in report.rows(StepCompute) if (row.rank, row.step) == (verdict.rank, verdict.step)]
    if not chosen or not chosen[0].kernel_ns:
        return []
    row = chosen[0]
    window = next((step.window_ns for step in report.steps if (step.rank, step.step) == (row.rank, row.step)), 0)
    if not window or row.kernel_ns < _BUSY * window:
        return []
    items = _lost(row)
    top = next(iter(report.rows(KindCost)), None)
    if row.mfu is not None:
        least = "at least " if row.known_share is not None and row.known_share < 0.995 else ""
        items.insert(0, f"MFU {least}{fraction(row.mfu)}")
    elif any(row.rank in chip.ranks and chip.chip is None for chip in report.rows(ChipUsed)):
        items.insert(0, "no roof: the chip is not known")
    if top is not None and top.roof_share is not None:
        items.insert(1, f"{top.kind} {fraction(top.share)} of kernels, at {fraction(top.roof_share)} of its roof")
    return items


def _lost(row: StepCompute) -> list[str]:
    losses = row.losses
    known = (
        ("clock below its rated one", losses.frequency_ns),
        ("on AI CPU", row.ai_cpu_ns),
        ("beyond the median rank", row.over_peers_ns),
        ("casts, transpositions and formats", losses.layout_ns),
        ("recomputed", row.recompute_ns),
        ("cores without a block", losses.blocks_ns),
        ("products off the tile", row.unaligned_ns),
    )
    return [
        f"{words} {duration(ns)} {share(ns, row.kernel_ns)}"
        for words, ns in known
        if ns is not None and ns >= _NOTABLE * row.kernel_ns
    ]
