"""The accelerator's clock is below its rated one.

## What it detects

The time that kernels lost because the AI Core clock, as sampled while they ran, was below the chip's rated clock (or
the highest that any rank of the same chip was seen at), per step and rank.

## Why it costs you

A kernel that computes takes as long as its cycles do. One rank with a lower clock holds all others up.

## When it is not a problem

The clock falls by design while nothing runs; only time inside kernels counts here. A power cap set on purpose is a
choice.

## What to do

See whether the device is hot, capped or broken; mend cooling or power, and leave the node out until then.

## How to check

Profile the same step again: the clock stays at its rated value, and equal operators take as long as on other ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import READ_CLOCKS
from hermes.model.compute_measures import ChipUsed, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import lost
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules._slow import slow_by_compute
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="of the time of all kernels",
    source="AI Core frequency check of msprof-analyze: mean (max - f) / max from 5 % on",
)
_MOST = 16


@rule("CMP008", state="stable", fault=Fault.LOW_CLOCK, layer="environment", cases=("CMP-14", "ENV-13"))
def low_clock(job: Job, computes: Rows[StepCompute], chips: Rows[ChipUsed]) -> Iterator[Loss]:
    """At most one finding."""
    found = lost(job, computes, "lost to a low clock", lambda row: row.losses.frequency_ns, LIMIT, NOISE)
    if found is None:
        return
    rows = {(row.rank, row.step): row for row in computes}
    worst = rows[found.worst.rank, found.worst.step]
    slow = {late.rank for late in slow_by_compute(job, computes)}
    clocked = [chip for chip in chips if worst.rank in chip.ranks and chip.mhz]
    factors = {row.rank: 1 - (row.losses.frequency_ns or 0) / row.kernel_ns for row in rows.values() if row.kernel_ns}
    clock = Evidence(
        what="mean clock in its kernels",
        value=round(worst.mhz or 0.0, 1),
        unit="MHz",
        threshold=float(clocked[0].mhz) if clocked and clocked[0].mhz else None,
        where=f"rank {worst.rank}",
    )
    yield Loss(
        message=f"A low clock costs {found.share:.0%} of the step "
        + (f"on rank {found.ranks[0]}" if len(found.ranks) == 1 else f"on {len(found.ranks)} ranks"),
        ranks=found.ranks,
        blames=tuple(Blame.of_rank(rank) for rank in found.ranks[:_MOST]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the clock is at its rated value all the time"),
        confidence=confidence("CMP008"),
        evidence=(*found.evidence, *((clock,) if worst.mhz else ())),
        replay=tuple(f"compute:{rank}={factors[rank]:.4g}" for rank in found.ranks[:_MOST] if rank in factors),
        apart=not slow.issuperset(found.ranks),
        actions=(
            Action(
                title="Look at temperature and power of the device",
                do=f"{READ_CLOCKS}, on the host of rank {found.ranks[0]}; run on another node until it is mended.",
                verify="The counter AI Core Freq stays at the rated clock through the step.",
                risk="One node less in the meantime.",
                source="msprof-analyze, AI Core frequency check",
            ),
        ),
    )
