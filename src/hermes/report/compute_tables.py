"""The page's tables about compute, and the terminal's line."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.analyze.compute_measures import ChipUsed, Compute, KindCost, OperatorCost, StepCompute
from hermes.knowledge.chips import GIGA, TERA
from hermes.report.cells import NAME_LIMIT, Cell, Column, Table, table
from hermes.report.format import NOT_MEASURED, clip, duration, fraction, number, numbers, ranks, share, size
from hermes.report.model import Report

_NOTABLE = 0.05
"""Share of a step's kernels from which the terminal speaks of a loss."""
_BUSY = 0.1
"""Share of a step's window from which the terminal speaks of its kernels."""


def compute_tables(compute: Compute) -> tuple[Table, ...]:
    """The tables, in the order of the page; one without rows is there too."""
    return (
        table(
            "compute",
            "Compute",
            "Device time of all kernels by class; rates and roof are those of the operators that have a formula.",
            _KINDS,
            compute.kinds,
        ),
        table(
            "compute-operators",
            "Compute by operator",
            "Calls with equal shapes and types; rates, roof and bound are those of the call of median time.",
            _OPERATORS,
            compute.operators,
        ),
        table(
            "compute-steps",
            "Compute by step",
            "Device time of the kernels of each step, added up without merging; parts may overlap.",
            _STEPS,
            compute.steps,
        ),
        table(
            "chips",
            "Chips",
            "The figures that roofs and MFU rest on: dense rates of the matrix units, and where they come from.",
            _CHIPS,
            compute.chips,
        ),
    )


def with_compute(tables: Sequence[Table], compute: Compute, behind: str = "free") -> list[Table]:
    """The page's tables with those of compute behind the one named."""
    at = next((place for place, table in enumerate(tables, start=1) if table.key == behind), len(tables))
    return [*tables[:at], *compute_tables(compute), *tables[at:]]


def compute_items(report: Report) -> list[str]:
    """What the terminal says of the compute of the verdict's step; nothing where it takes little of the step."""
    compute, verdict = report.compute, report.verdict
    chosen = [row for row in compute.steps if (row.rank, row.step) == (verdict.rank, verdict.step)]
    if not chosen or not chosen[0].kernel_ns:
        return []
    row = chosen[0]
    window = next((step.window_ns for step in report.steps if (step.rank, step.step) == (row.rank, row.step)), 0)
    if not window or row.kernel_ns < _BUSY * window:
        return []
    items = _lost(row)
    top = compute.kinds[0] if compute.kinds else None
    if row.mfu is not None:
        least = "at least " if row.known_share is not None and row.known_share < 0.995 else ""
        items.insert(0, f"MFU {least}{fraction(row.mfu)}")
    elif any(row.rank in chip.ranks and chip.chip is None for chip in compute.chips):
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


def _name(text: str) -> Cell:
    return Cell(text=clip(text, NAME_LIMIT), kind="name")


def _words(text: str | None) -> Cell:
    return Cell(text="not known", kind="absent") if text is None else Cell(text=clip(text, NAME_LIMIT), kind="words")


def _absent() -> Cell:
    return Cell(text=NOT_MEASURED, kind="absent")


def _time(ns: int | None, whole: int = 0) -> Cell:
    return _absent() if ns is None else Cell(text=duration(ns), value=str(ns), note=share(ns, whole))


def _whole(value: int | None) -> Cell:
    return Cell(text="none", kind="absent") if value is None else Cell(text=str(value), value=str(value))


def _part(value: float | None) -> Cell:
    return _absent() if value is None else Cell(text=fraction(value), value=repr(value))


def _rate(value: float | None) -> Cell:
    return Cell(text="none", kind="absent") if value is None else Cell(text=number(value), value=repr(value))


def _bytes(value: int | None) -> Cell:
    return Cell(text="not known", kind="absent") if value is None else Cell(text=size(value), value=str(value))


def _flops(value: int | None) -> Cell:
    return Cell(text="not known", kind="absent") if value is None else Cell(text=f"{value:.3g}", value=str(value))


_KINDS: tuple[Column[KindCost], ...] = (
    Column(title="Class", cell=lambda row: _words(row.kind), words=True),
    Column(title="Total", cell=lambda row: _time(row.ns), unit="ns"),
    Column(title="Share", cell=lambda row: _part(row.share)),
    Column(title="Calls", cell=lambda row: _whole(row.calls)),
    Column(title="TFLOP/s", cell=lambda row: _rate(row.tflops)),
    Column(title="GB/s", cell=lambda row: _rate(row.gb_per_s)),
    Column(title="Of roof", cell=lambda row: _part(row.roof_share)),
    Column(title="With a roof", cell=lambda row: _time(row.roofed_ns, row.ns), unit="ns"),
    Column(title="Slow clock", cell=lambda row: _time(row.losses.frequency_ns, row.ns), unit="ns"),
    Column(title="Idle cores", cell=lambda row: _time(row.losses.blocks_ns, row.ns), unit="ns"),
    Column(title="Idle pipes", cell=lambda row: _time(row.losses.pipe_ns, row.ns), unit="ns"),
    Column(title="Layout", cell=lambda row: _time(row.losses.layout_ns, row.ns), unit="ns"),
)
_OPERATORS: tuple[Column[OperatorCost], ...] = (
    Column(title="Operator", cell=lambda row: _name(row.operator), words=True),
    Column(title="Class", cell=lambda row: _words(row.kind), words=True),
    Column(title="Shapes", cell=lambda row: _name(row.shapes), words=True),
    Column(title="Type", cell=lambda row: _words(row.precision), words=True),
    Column(title="Total", cell=lambda row: _time(row.ns), unit="ns"),
    Column(title="Share", cell=lambda row: _part(row.share)),
    Column(title="Calls", cell=lambda row: _whole(row.calls)),
    Column(title="Median", cell=lambda row: _time(row.median_ns), unit="ns"),
    Column(title="FLOP", cell=lambda row: _flops(row.flops)),
    Column(title="Bytes", cell=lambda row: _bytes(row.bytes), unit="bytes"),
    Column(title="TFLOP/s", cell=lambda row: _rate(row.tflops)),
    Column(title="GB/s", cell=lambda row: _rate(row.gb_per_s)),
    Column(title="Roof", cell=lambda row: _words(row.limit), words=True),
    Column(title="Of roof", cell=lambda row: _part(row.roof_share)),
    Column(title="Bound by", cell=lambda row: _words(row.bound), words=True),
    Column(title="Note", cell=lambda row: _name(row.note), words=True),
    Column(title="Ranks", cell=lambda row: _words(numbers(row.ranks)), words=True),
)
_STEPS: tuple[Column[StepCompute], ...] = (
    Column(title="Rank", cell=lambda row: _whole(row.rank)),
    Column(title="Step", cell=lambda row: _whole(row.step)),
    Column(title="Kernels", cell=lambda row: _time(row.kernel_ns), unit="ns"),
    Column(title="MFU", cell=lambda row: _part(row.mfu)),
    Column(title="Known FLOP", cell=lambda row: _part(row.known_share)),
    Column(title="With a roof", cell=lambda row: _time(row.roofed_ns, row.kernel_ns), unit="ns"),
    Column(title="Slow clock", cell=lambda row: _time(row.losses.frequency_ns, row.kernel_ns), unit="ns"),
    Column(title="Idle cores", cell=lambda row: _time(row.losses.blocks_ns, row.kernel_ns), unit="ns"),
    Column(title="Idle pipes", cell=lambda row: _time(row.losses.pipe_ns, row.kernel_ns), unit="ns"),
    Column(title="AI CPU", cell=lambda row: _time(row.ai_cpu_ns, row.kernel_ns), unit="ns"),
    Column(title="Casts", cell=lambda row: _time(row.cast_ns, row.kernel_ns), unit="ns"),
    Column(title="Transpositions", cell=lambda row: _time(row.transpose_ns, row.kernel_ns), unit="ns"),
    Column(title="Formats", cell=lambda row: _time(row.conversion_ns, row.kernel_ns), unit="ns"),
    Column(title="Recomputed", cell=lambda row: _time(row.recompute_ns, row.kernel_ns), unit="ns"),
    Column(title="Beyond median rank", cell=lambda row: _time(row.over_peers_ns, row.kernel_ns), unit="ns"),
    Column(title="Off the tile", cell=lambda row: _time(row.unaligned_ns, row.kernel_ns), unit="ns"),
    Column(title="MHz", cell=lambda row: _rate(row.mhz)),
)
_CHIPS: tuple[Column[ChipUsed], ...] = (
    Column(title="Ranks", cell=lambda row: _words(ranks(row.ranks)), words=True),
    Column(title="Recorded", cell=lambda row: _words(row.recorded), words=True),
    Column(title="Taken for", cell=lambda row: _words(row.chip), words=True),
    Column(title="Told by", cell=lambda row: _words(row.told_by), words=True),
    Column(title="TFLOP/s", cell=lambda row: _words(_rates(row)), words=True),
    Column(title="GB/s", cell=lambda row: _rate(None if row.bandwidth is None else row.bandwidth / GIGA)),
    Column(title="Cores", cell=lambda row: _whole(row.cores)),
    Column(title="MHz", cell=lambda row: _whole(row.mhz)),
    Column(title="Sources", cell=lambda row: _name("; ".join(dict.fromkeys(row.sources.values()))), words=True),
)


def _rates(row: ChipUsed) -> str:
    return ", ".join(f"{key} {number(value / TERA)}" for key, value in row.matrix.items())
