"""The tables of communication and of the job's structure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.analyze.comm_measures import (
    Alignment,
    Contention,
    GroupKind,
    GroupOp,
    LatencyFit,
    LinkPair,
    Packets,
    SlowRank,
    Stall,
)
from hermes.analyze.structure_measures import Balance, MatrixRow, Metric, RankMatrix, Spread, Stage
from hermes.report.cells import (
    Cell,
    Column,
    Table,
    absent,
    decimal,
    fraction_cell,
    known,
    name,
    size_cell,
    table,
    time,
    whole,
    words,
)
from hermes.report.format import counted, duration, fraction, numbers, ranks
from hermes.report.format import number as written
from hermes.report.model import Report


def communication_tables(report: Report) -> tuple[Table, ...]:
    """The tables of communication, in the order of the page; a table without rows is there too."""
    talk = report.communication
    several = [group for group in talk.groups if len(talk.groups) > len(talk.kinds)]
    return (
        table(
            "comm-kinds", "By operation", "Groups of one dimension, operation and size together.", _KINDS, talk.kinds
        ),
        table("comm-groups", "By group", "Each operation of each group over its ranks.", _GROUPS, several),
        table(
            "comm-fits",
            "Fixed cost",
            "Transfer time as a fixed part and a part by size; many small operations pay the fixed part each time.",
            _FITS,
            talk.fits,
        ),
        table(
            "slow-ranks",
            "Ranks that arrive last",
            "How long all other members were there and this one was not. By chance: how likely some rank is the latest "
            "of so many steps when all are alike. A rank that waits itself may pass on what another does.",
            _SLOW_RANKS,
            talk.slow_ranks,
        ),
        table(
            "link-pairs",
            "Links by pair",
            "Each link against those of its kind that moved the same sizes in the same step, most excess first.",
            _LINKS,
            talk.links,
        ),
        table("packets", "Sizes of transfers", "All transfers by size.", _PACKETS, talk.packets),
        table(
            "alignment", "Alignment", "Sizes above 512 bytes that are no multiple of 512.", _ALIGNMENT, talk.alignment
        ),
        table(
            "stalls",
            "Stalled transfers",
            "At least ten times, and a millisecond, longer than usual.",
            _STALLS,
            talk.stalls,
        ),
        table(
            "contention",
            "Compute and communication beside each other",
            "The same work with and without the other kind beside it; at least five samples of each.",
            _CONTENTION,
            talk.contention,
        ),
    )


def structure_tables(report: Report) -> tuple[Table, ...]:
    """The tables of stages, balance and ranks, in the order of the page."""
    line, matrix = report.structure.pipeline, report.structure.matrix
    return (
        table(
            "stages",
            "Pipeline stages",
            "Per step, mean over the ranks of a stage. Bubble: waiting for another stage with nothing computed.",
            _STAGES,
            line.stages if line else (),
        ),
        table(
            "balance",
            "Balance",
            "How evenly tokens are spread over the ranks of a group.",
            _BALANCE,
            report.structure.balances,
        ),
        *([_metrics(matrix), _matrix(matrix)] if matrix and len(report.coverage.ranks_seen) > 1 else []),
    )


def pipeline_sentence(report: Report) -> str:
    """What the stages amount to, in one or two sentences; empty without a pipeline."""
    line = report.structure.pipeline
    if line is None:
        return ""
    said = [f"{len(line.stages)} stages, by {line.source}"]
    if line.imbalance is not None:
        said.append(f"the slowest computes {fraction(line.imbalance)} more than the mean")
    if line.bubble_share is not None:
        said.append(f"the bubble takes {fraction(line.bubble_share)} of the step")
    if line.structural_share is not None:
        said.append(f"{line.micro_batches} micro-batches cost {fraction(line.structural_share)} in any case")
    return "; ".join(said) + "."


def _metrics(matrix: RankMatrix) -> Table:
    return table("rank-metrics", "Spread over ranks", "Each metric over all ranks, per step.", _METRICS, matrix.metrics)


def _matrix(matrix: RankMatrix) -> Table:
    """A row a rank, or a block of ranks with its median; the note names the extreme of a block."""
    columns: list[Column[MatrixRow]] = [Column(title="Ranks", cell=_of_ranks)]
    columns += [
        Column(
            title=metric.name.capitalize(), cell=_cell(at, metric.unit), unit=metric.unit if metric.unit == "ns" else ""
        )
        for at, metric in enumerate(matrix.metrics)
    ]
    about = (
        "Each rank, per step."
        if matrix.ranks_per_row == 1
        else (f"{matrix.ranks_per_row} ranks a row: their median, and the largest with its rank.")
    )
    return table("rank-matrix", "Rank matrix", about, columns, matrix.rows)


def _of_ranks(row: MatrixRow) -> Cell:
    text = str(row.first_rank) if row.ranks == 1 else f"{row.first_rank} to {row.last_rank}"
    return Cell(text=text, value=str(row.first_rank))


class _cell:  # noqa: N801
    """The cell of one metric."""

    def __init__(self, at: int, unit: str) -> None:
        self._at, self._unit = at, unit

    def __call__(self, row: MatrixRow) -> Cell:
        spread = row.cells[self._at]
        if spread is None:
            return absent()
        note = f"most {_value(spread.most, self._unit)} on {spread.most_rank}" if row.ranks > 1 else ""
        return Cell(text=_value(spread.median, self._unit), value=repr(spread.median), note=note)


def _value(value: float, unit: str) -> str:
    return duration(round(value)) if unit == "ns" else written(value)


def _at(spread: Spread, unit: str, which: str) -> Cell:
    value, rank = (spread.most, spread.most_rank) if which == "most" else (spread.least, spread.least_rank)
    return Cell(text=_value(value, unit), value=repr(value), note=f"rank {rank}")


def _chance(p_value: float | None) -> Cell:
    if p_value is None:
        return absent()
    return Cell(text="<0.001" if p_value < 0.001 else f"{p_value:.3f}", value=repr(p_value))


def _count(row: GroupKind) -> Cell:
    of = "" if row.size is None else f"of {counted(row.size, 'rank')}"
    return Cell(text=str(row.groups), value=str(row.groups), note=of)


def _members(members: Sequence[int] | None) -> Cell:
    return known(numbers(members) if members else None)


_KINDS: tuple[Column[GroupKind], ...] = (
    Column(title="Group", cell=lambda row: name(row.kind), words=True),
    Column(title="Operation", cell=lambda row: name(row.op), words=True),
    Column(title="Groups", cell=_count),
    Column(title="Operations", cell=lambda row: whole(row.operations)),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Elapsed", cell=lambda row: time(row.elapse_ns), unit="ns"),
    Column(title="Wait", cell=lambda row: time(row.wait_ns, row.elapse_ns), unit="ns"),
    Column(title="Transfer", cell=lambda row: time(row.transfer_ns, row.elapse_ns), unit="ns"),
    Column(title="Idle", cell=lambda row: time(row.idle_ns, row.elapse_ns), unit="ns"),
    Column(title="Beside compute", cell=lambda row: time(row.hidden_ns), unit="ns"),
    Column(title="Algorithm GB/s", cell=lambda row: decimal(row.algorithm_gb_per_s)),
    Column(title="Bus GB/s", cell=lambda row: decimal(row.bus_gb_per_s)),
    Column(title="Least", cell=lambda row: decimal(row.least_bus_gb_per_s)),
    Column(title="Of link", cell=lambda row: fraction_cell(row.of_link)),
)
_GROUPS: tuple[Column[GroupOp], ...] = (
    Column(title="Group", cell=lambda row: name(row.group), words=True),
    Column(title="Ranks", cell=lambda row: _members(row.members or row.ranks), words=True),
    Column(title="Operation", cell=lambda row: name(row.op), words=True),
    Column(title="Operations", cell=lambda row: whole(row.operations)),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Elapsed", cell=lambda row: time(row.elapse_ns), unit="ns"),
    Column(title="Wait", cell=lambda row: time(row.wait_ns, row.elapse_ns), unit="ns"),
    Column(title="Transfer", cell=lambda row: time(row.transfer_ns, row.elapse_ns), unit="ns"),
    Column(title="Idle", cell=lambda row: time(row.idle_ns, row.elapse_ns), unit="ns"),
    Column(title="Median transfer", cell=lambda row: time(row.transfer_median_ns), unit="ns"),
    Column(title="Algorithm GB/s", cell=lambda row: decimal(row.algorithm_gb_per_s)),
    Column(title="Bus GB/s", cell=lambda row: decimal(row.bus_gb_per_s)),
    Column(title="Link GB/s", cell=lambda row: decimal(row.link_gb_per_s)),
    Column(title="Of link", cell=lambda row: fraction_cell(row.of_link)),
    Column(title="Clock error", cell=lambda row: time(row.error_ns), unit="ns"),
)
_FITS: tuple[Column[LatencyFit], ...] = (
    Column(title="Operation", cell=lambda row: name(row.op), words=True),
    Column(title="Groups", cell=lambda row: name(", ".join(row.groups)), words=True),
    Column(title="Ranks", cell=lambda row: _members(row.members), words=True),
    Column(title="Fixed part", cell=lambda row: time(row.fixed_ns), unit="ns"),
    Column(title="All of it", cell=lambda row: time(row.fixed_total_ns), unit="ns"),
    Column(title="Share", cell=lambda row: fraction_cell(row.fixed_share)),
    Column(title="Peak bus GB/s", cell=lambda row: decimal(row.peak_bus_gb_per_s)),
    Column(title="Operations", cell=lambda row: whole(row.operations)),
    Column(title="Sizes", cell=lambda row: whole(row.sizes)),
    Column(title="Error", cell=lambda row: fraction_cell(row.error)),
)
_SLOW_RANKS: tuple[Column[SlowRank], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="That rank", cell=lambda row: words("collected" if row.collected else "not collected"), words=True),
    Column(title="Held the others up", cell=lambda row: time(row.held_ns), unit="ns"),
    Column(title="Last", cell=lambda row: Cell(text=f"{row.last} of {row.operations}", value=str(row.last))),
    Column(
        title="Latest of step",
        cell=lambda row: Cell(text=f"{row.blocks_last} of {row.blocks}", value=str(row.blocks_last)),
    ),
    Column(title="By chance", cell=lambda row: _chance(row.p_value)),
    Column(title="Median lead", cell=lambda row: time(row.median_lead_ns), unit="ns"),
    Column(title="Waits itself", cell=lambda row: time(row.own_wait_ns), unit="ns"),
    Column(title="Clock error", cell=lambda row: time(row.error_ns), unit="ns"),
)
_LINKS: tuple[Column[LinkPair], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="Other side", cell=lambda row: whole(row.peer)),
    Column(title="Link", cell=lambda row: name(row.transport), words=True),
    Column(title="GB/s", cell=lambda row: decimal(row.gb_per_s)),
    Column(title="Of link", cell=lambda row: fraction_cell(row.of_link)),
    Column(title="Times its peers", cell=lambda row: decimal(row.ratio)),
    Column(title="Excess", cell=lambda row: time(row.excess_ns), unit="ns"),
    Column(title="Slower", cell=lambda row: Cell(text=f"{row.slower} of {row.compared}", value=str(row.slower))),
    Column(title="By chance", cell=lambda row: _chance(row.p_value)),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Time", cell=lambda row: time(row.time_ns), unit="ns"),
    Column(title="Transfers", cell=lambda row: whole(row.transfers)),
)
_PACKETS: tuple[Column[Packets], ...] = (
    Column(title="Link", cell=lambda row: name(row.transport), words=True),
    Column(title="From", cell=lambda row: size_cell(row.least_bytes), unit="bytes"),
    Column(title="Below", cell=lambda row: size_cell(2 * row.least_bytes), unit="bytes"),
    Column(title="Transfers", cell=lambda row: whole(row.transfers)),
    Column(title="Size", cell=lambda row: size_cell(row.bytes), unit="bytes"),
    Column(title="Time", cell=lambda row: time(row.time_ns), unit="ns"),
    Column(title="GB/s", cell=lambda row: decimal(row.gb_per_s)),
)
_ALIGNMENT: tuple[Column[Alignment], ...] = (
    Column(title="What", cell=lambda row: name(row.what), words=True),
    Column(
        title="Unaligned", cell=lambda row: Cell(text=f"{row.unaligned} of {row.counted}", value=str(row.unaligned))
    ),
    Column(title="Their time", cell=lambda row: time(row.unaligned_time_ns, row.time_ns), unit="ns"),
    Column(title="Unaligned GB/s", cell=lambda row: decimal(row.unaligned_gb_per_s)),
    Column(title="Others GB/s", cell=lambda row: decimal(row.gb_per_s)),
)
_STALLS: tuple[Column[Stall], ...] = (
    Column(title="Rank", cell=lambda row: whole(row.rank)),
    Column(title="What", cell=lambda row: name(row.what), words=True),
    Column(title="Stalled", cell=lambda row: Cell(text=f"{row.stalled} of {row.counted}", value=str(row.stalled))),
    Column(title="Excess", cell=lambda row: time(row.excess_ns), unit="ns"),
    Column(title="Longest", cell=lambda row: time(row.longest_ns), unit="ns"),
    Column(title="At", cell=lambda row: whole(row.longest_at_ns), unit="ns"),
)
_CONTENTION: tuple[Column[Contention], ...] = (
    Column(title="Kind", cell=lambda row: words(row.kind), words=True),
    Column(title="Name", cell=lambda row: name(row.name), words=True),
    Column(title="Shapes or size", cell=lambda row: name(row.detail), words=True),
    Column(title="Slowdown", cell=lambda row: decimal(row.slowdown)),
    Column(title="Loss", cell=lambda row: time(row.loss_ns), unit="ns"),
    Column(title="Beside", cell=lambda row: time(row.beside_median_ns), unit="ns"),
    Column(title="Alone", cell=lambda row: time(row.alone_median_ns), unit="ns"),
    Column(title="Samples", cell=lambda row: words(f"{row.beside} beside, {row.alone} alone"), words=True),
)
_STAGES: tuple[Column[Stage], ...] = (
    Column(title="Stage", cell=lambda row: whole(row.stage)),
    Column(title="Ranks", cell=lambda row: words(ranks(row.ranks)), words=True),
    Column(title="Window", cell=lambda row: time(row.window_ns), unit="ns"),
    Column(title="Compute", cell=lambda row: time(row.compute_ns, row.window_ns or 0), unit="ns"),
    Column(title="Bubble", cell=lambda row: time(row.bubble_ns, row.window_ns or 0), unit="ns"),
    Column(title="Transfer", cell=lambda row: time(row.transfer_ns), unit="ns"),
    Column(title="Bubble is", cell=lambda row: words("estimated" if row.estimated else "measured"), words=True),
)
_BALANCE: tuple[Column[Balance], ...] = (
    Column(title="What", cell=lambda row: words(row.what), words=True),
    Column(title="Group", cell=lambda row: name(row.group), words=True),
    Column(title="Ranks", cell=lambda row: words(numbers(row.ranks)), words=True),
    Column(title="Imbalance", cell=lambda row: fraction_cell(row.imbalance)),
    Column(title="Mean", cell=lambda row: decimal(row.mean)),
    Column(
        title="Most", cell=lambda row: Cell(text=written(row.most), value=repr(row.most), note=f"rank {row.most_rank}")
    ),
    Column(
        title="Least",
        cell=lambda row: Cell(text=written(row.least), value=repr(row.least), note=f"rank {row.least_rank}"),
    ),
    Column(title="Correlation with compute", cell=lambda row: decimal(row.correlation)),
    Column(title="Samples", cell=lambda row: whole(row.samples)),
)
_METRICS: tuple[Column[Metric], ...] = (
    Column(title="Metric", cell=lambda row: words(row.name), words=True),
    Column(title="Unit", cell=lambda row: words("" if row.unit == "ns" else row.unit), words=True),
    Column(title="Least", cell=lambda row: _at(row.spread, row.unit, "least")),
    Column(
        title="Median", cell=lambda row: Cell(text=_value(row.spread.median, row.unit), value=repr(row.spread.median))
    ),
    Column(title="Most", cell=lambda row: _at(row.spread, row.unit, "most")),
    Column(title="Ranks", cell=lambda row: whole(row.spread.ranks)),
)
