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

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import EXPANDABLE_SEGMENTS
from hermes.knowledge.host_work import ALLOCATION
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import AllocatorCalls
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import MemoryPeak
from hermes.profiles.rules._host import blamed, event_cost, fact, has_device, host_loss, on
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")
PIECES = Limit(value=0.23, unit="of reserved memory", source="docs/evidence/host-limits.md")


@rule("MEM003", state="preview", fault=Fault.FRAGMENTATION, cases=("MEM-01", "MEM-08", "MEM-18", "MEM-19"))
def fragmentation(job: Job, events: Rows[AllocatorCalls], peaks: Rows[MemoryPeak]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job, "free while memory is taken or given back", LIMIT, lambda split: _cost(job, events, peaks, split.rank)
    )
    peak = _peak(peaks, found.worst.rank) if found else None
    if found is None or peak is None or peak.fragmentation is None:
        return
    yield Loss(
        message=f"{peak.fragmentation:.0%} of the reserved memory holds no tensor, and asking for more leaves the "
        f"device free for {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, Blame(peak.component, "allocator")),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the driver is asked for nothing"),
        confidence=confidence("MEM003"),
        evidence=(
            *found.evidence,
            fact(job, peak.rank, f"{peak.component}: reserved and free when most was reserved",
                 round(peak.fragmentation, 4), PIECES.unit, PIECES.value),
            fact(job, peak.rank, f"{peak.component}: most reserved", peak.reserved_bytes or 0, "bytes"),
        ),
        replay=("host:allocation=0",),
        actions=(
            EXPANDABLE_SEGMENTS,
        ),
    )  # fmt: skip


def _peak(peaks: Rows[MemoryPeak], rank: int) -> MemoryPeak | None:
    """The allocator of the rank that is most in pieces."""
    rows = [row for row in peaks.of(rank) if (row.fragmentation or 0) > PIECES.value]
    return max(rows, key=lambda row: (row.reserved_bytes or 0, row.fragmentation or 0, row.component), default=None)


def _cost(job: Job, events: Rows[AllocatorCalls], peaks: Rows[MemoryPeak], rank: int) -> int | None:
    return event_cost(job, events, rank, ALLOCATION) if has_device(job, rank) and _peak(peaks, rank) else None
