"""Describes communication and pipeline structure on the terminal: only times that are a notable share of the step."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.comm_measures import GroupKind, LinkPair, SlowRank, Stall
from hermes.model.report import Report
from hermes.model.structure_measures import Pipeline
from hermes.report.format import counted, duration, fraction, number
from hermes.report.report_rows import typical

NOTABLE = 0.05
"""The share of the step from which communication is shown: the limit of TraceLens and of rule COM001."""
_SURE = 0.05


def notable(report: Report) -> tuple[str, ...]:
    """Sentences about communication that takes at least a twentieth of the longest typical step, the total first."""
    window = max((split.window_ns for split in typical(report.steps)), default=0)
    if not window:
        return ()
    steps = max(1, max(sum(split.rank == rank for split in report.steps) for rank in {s.rank for s in report.steps}))
    least = NOTABLE * window * steps
    return (*_whole(report, least), *_ranks(report, least), *_links(report, least), *_pipeline(report))


def _whole(report: Report, least: float) -> Iterator[str]:
    for kind in report.rows(GroupKind)[:2]:
        if kind.wait_ns is None or kind.elapse_ns - (kind.hidden_ns or 0) < least * kind.ranks:
            continue
        said = [f"{kind.op} of {kind.kind}: {fraction(kind.wait_ns / kind.elapse_ns)} waiting for the last member"]
        if kind.bus_gb_per_s is not None:
            said.append(f"then {number(kind.bus_gb_per_s)} GB/s on the bus")
        if kind.of_link is not None:
            said.append(f"{fraction(kind.of_link)} of what its links are built for")
        yield ", ".join(said)


def _ranks(report: Report, least: float) -> Iterator[str]:
    for slow in report.rows(SlowRank)[:2]:
        if slow.held_ns >= max(least, 2 * slow.own_wait_ns):
            missing = "" if slow.collected else ", which was not collected"
            chance = "" if slow.chance <= _SURE else "; too few steps to rule out chance"
            yield (
                f"all others waited {duration(slow.held_ns)} for rank {slow.rank} alone{missing} "
                f"(latest in {slow.blocks_last} of {counted(slow.blocks, 'step')}{chance})"
            )


def _links(report: Report, least: float) -> Iterator[str]:
    for link in report.rows(LinkPair)[:2]:
        if (link.excess_ns or 0) >= least and link.p_value is not None and link.p_value <= _SURE:
            yield (
                f"link {link.rank} to {link.peer} ({link.transport}): {number(link.gb_per_s)} GB/s, "
                f"{number(link.ratio)} times the time of its peers"
            )
    for stall in report.rows(Stall)[:2]:
        if stall.excess_ns >= least:
            who = "" if stall.rank is None else f" of rank {stall.rank}"
            share = f"{stall.stalled} of {stall.counted} transfers{who} ({stall.what})"
            yield f"{share} stalled for {duration(stall.excess_ns)}"


def _pipeline(report: Report) -> Iterator[str]:
    line = report.rows(Pipeline).only
    if line is not None and (line.bubble_share or 0) >= NOTABLE:
        known = "" if line.structural_share is None else f", {fraction(line.structural_share)} by its schedule alone"
        uneven = (
            "" if line.imbalance is None else f"; the slowest stage computes {fraction(line.imbalance)} over the mean"
        )
        bubble = f"bubble {fraction(line.bubble_share or 0)} of the step"
        yield f"pipeline of {len(line.stages)} stages: {bubble}{known}{uneven}"


def pipeline_sentence(report: Report) -> str:
    """One or two sentences about the pipeline's stages, their bubble and imbalance; empty without a pipeline."""
    line = report.rows(Pipeline).only
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
