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

from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._compute import lost
from hermes.diagnose.rules._limits import NOISE
from hermes.diagnose.rules._slow import slow_by_compute

LIMIT = Threshold(
    value=0.05,
    unit="of the time of all kernels",
    source="AI Core frequency check of msprof-analyze: mean (max - f) / max from 5 % on",
)
_MOST = 16


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = lost(measures, "lost to a low clock", lambda row: row.losses.frequency_ns, LIMIT, NOISE)
    if found is None:
        return
    rows = {(row.rank, row.step): row for row in measures.compute.steps}
    worst = rows[found.worst.rank, found.worst.step]
    slow = {late.rank for late in slow_by_compute(measures)}
    chips = [chip for chip in measures.compute.chips if worst.rank in chip.ranks and chip.mhz]
    factors = {row.rank: 1 - (row.losses.frequency_ns or 0) / row.kernel_ns for row in rows.values() if row.kernel_ns}
    clock = Evidence(
        what="mean clock in its kernels",
        value=round(worst.mhz or 0.0, 1),
        unit="MHz",
        threshold=float(chips[0].mhz) if chips and chips[0].mhz else None,
        where=f"rank {worst.rank}",
    )
    yield Finding(
        code="CMP008",
        layer="environment",
        cause="low clock",
        title=f"A low clock costs {found.share:.0%} of the step "
        + (f"on rank {found.ranks[0]}" if len(found.ranks) == 1 else f"on {len(found.ranks)} ranks"),
        ranks=found.ranks,
        blames=tuple(f"rank {rank}" for rank in found.ranks[:_MOST]),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the clock is at its rated value all the time"),
        confidence=round(0.9 * measures.certainty, 2),
        evidence=(*found.evidence, *((clock,) if worst.mhz else ())),
        replay=tuple(f"compute:{rank}={factors[rank]:.4g}" for rank in found.ranks[:_MOST] if rank in factors),
        within="CMP011" if slow.issuperset(found.ranks) else "",
        actions=(
            Action(
                title="Look at temperature and power of the device",
                do="npu-smi info -t common -i DEVICE and npu-smi info -t power, or nvidia-smi -q -d "
                "CLOCK,PERFORMANCE,TEMPERATURE on "
                f"the host of rank {found.ranks[0]}; run on another node until it is mended.",
                verify="The counter AI Core Freq stays at the rated clock through the step.",
                risk="One node less in the meantime.",
                source="msprof-analyze, AI Core frequency check",
            ),
        ),
    )


RULE = Rule(code="CMP008", page=__doc__ or "", find=find, cases=("CMP-14", "ENV-13"))
