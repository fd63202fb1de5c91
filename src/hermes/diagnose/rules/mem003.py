"""The allocator's memory is in pieces.

## What it detects

Device memory is taken from the driver in the steps at a cost (as MEM002 has it), although a good part of what is
reserved belongs to no tensor at the moment at which most was reserved. Free memory alone is no finding: it is the room
that steps reuse.

## Why it costs you

No free piece is large enough, so the allocator asks the driver, or frees its cache and tries again.

## When it is not a problem

When the allocator asks for nothing: then the gap is only a cache.

## What to do

Let segments grow, keep shapes in few sizes, and let go of tensors that other streams hold.

## How to check

Reserved over allocated falls below 1.3 at the peak, and allocation calls are gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.host_measures import MemoryPeak
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._host import blamed, event_cost, fact, has_device, host_loss, on
from hermes.knowledge.host_work import ALLOCATION

LIMIT = Threshold(value=0.02, unit="of step", source="docs/evidence/host-limits.md")
PIECES = Threshold(value=0.23, unit="of reserved memory", source="docs/evidence/host-limits.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = host_loss(
        measures, "free while memory is taken or given back", LIMIT, lambda split: _cost(measures, split.rank)
    )
    peak = _peak(measures, found.worst.rank) if found else None
    if found is None or peak is None or peak.fragmentation is None:
        return
    yield Finding(
        code="MEM003",
        layer="memory",
        cause="fragmentation",
        title=f"{peak.fragmentation:.0%} of the reserved memory holds no tensor, and asking for more leaves the device "
        f"free for {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, peak.component),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the driver is asked for nothing"),
        confidence=round(0.5 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            fact(measures, peak.rank, f"{peak.component}: reserved and free when most was reserved",
                 round(peak.fragmentation, 4), PIECES.unit, PIECES.value),
            fact(measures, peak.rank, f"{peak.component}: most reserved", peak.reserved_bytes or 0, "bytes"),
        ),
        replay=("host:allocation=0",),
        within="MEM002",
        actions=(
            Action(
                title="Let segments grow",
                do="export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True, PYTORCH_CUDA_ALLOC_CONF on CUDA; "
                "for lengths that vary also roundup_power2_divisions:4.",
                verify="Reserved over allocated falls below 1.3 at the peak.",
                risk="Older drivers cannot use several devices from one process with it.",
                source="PyTorch notes on CUDA semantics; torch_npu's list of environment variables",
            ),
        ),
    )  # fmt: skip


def _peak(measures: Measures, rank: int) -> MemoryPeak | None:
    """The allocator of the rank that is most in pieces."""
    rows = [row for row in measures.host.peaks if row.rank == rank and (row.fragmentation or 0) > PIECES.value]
    return max(rows, key=lambda row: (row.reserved_bytes or 0, row.fragmentation or 0, row.component), default=None)


def _cost(measures: Measures, rank: int) -> int | None:
    return event_cost(measures, rank, ALLOCATION) if has_device(measures, rank) and _peak(measures, rank) else None


RULE = Rule(code="MEM003", page=__doc__ or "", find=find, cases=("MEM-01", "MEM-08", "MEM-18", "MEM-19"))
