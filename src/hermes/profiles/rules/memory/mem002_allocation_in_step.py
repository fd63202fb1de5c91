"""The step allocates device memory from the driver.

## What it detects

The rule counts idle time of the device while the host allocates device memory from the driver or frees such memory, per
step, as a share of the step. The calls are `cudaMalloc`, `cudaFree`, `aclrtMallocPhysical`, and mapping of segments. If
much memory was reserved but unused at the peak of reserved memory, the cause is fragmentation. Unused memory alone is
no finding: later steps reuse it.

## Why it costs you

Allocations from the driver are slow, and freeing waits for the device. The caching allocator exists to avoid such
calls. If no free block is large enough, the allocator asks the driver, or frees its cache and tries again.

## When it is not a problem

Allocations in the first steps are usual, because the allocator fills its cache. A capture of the start of a program
shows little else.

## What to do

Remove `empty_cache()` from the loop, leave some memory free, and allow expandable segments. Use few different shapes,
and release tensors that other streams hold.

## How to check

Profile again after the warm-up: no call to the driver is left, and reserved memory is below 1.3 times allocated memory
at the peak.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.blocking_calls import takes_host_memory
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import ALLOCATION
from hermes.knowledge.vendor_cures import EXPANDABLE_SEGMENTS, KEEP_CACHED_MEMORY, KEEP_PINNED_MEMORY
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import AllocatorCalls
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import MemoryPeak
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import (
    blamed,
    event_cost,
    events_of,
    fact,
    has_device,
    host_loss,
    of_events,
)
from hermes.profiles.rules.evidence_messages import most_reserved
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")
PIECES = Limit(value=0.23, unit="of reserved memory", source="docs/evidence/host-limits.md")


@rule(
    "MEM002",
    state="preview",
    fault=Fault.ALLOCATOR_CALLS,
    cases=(
        "MEM-02", "MEM-03", "MEM-07", "MEM-16", "MEM-17", "MEM-18", "CPU-21", "IO-26", "MEM-01", "MEM-08", "MEM-19",
    ),
)  # fmt: skip
def allocation_in_step(job: Job, events: Rows[AllocatorCalls], peaks: Rows[MemoryPeak]) -> Iterator[Loss]:
    """At most one finding, of memory allocated inside steps."""
    found = host_loss(
        job,
        COST,
        LIMIT,
        lambda split: event_cost(job, events, split.rank, ALLOCATION) if has_device(job, split.rank) else None,
    )
    row = events_of(events, found.worst.rank, ALLOCATION) if found else None
    if found is None or row is None:
        return
    pinned = sum(ns for name, _, ns in row.names if takes_host_memory(name))
    host = 2 * pinned > sum(ns for _, _, ns in row.names)
    pieces = None if host else _in_pieces(peaks, row.rank)
    names = [Blame(name) for name, _, _ in row.names[:1]]
    share, where = percents(found.share), some_of(job, found.ranks)
    yield Loss(
        fault=Fault.FRAGMENTATION if pieces else None,
        message=in_pieces(fragmentation=percents(pieces.fragmentation or 0), share=share, on=where)
        if pieces
        else (pinned_memory if host else device_memory)(share=share, on=where),
        ranks=found.ranks,
        blames=blamed(job, found, *([Blame(pieces.component, "allocator")] if pieces else names)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=ASKS_NOTHING)),
        confidence=confidence("MEM002.in_pieces" if pieces else "MEM002"),
        evidence=(*found.evidence, *(_evidence(job, pieces) if pieces else ()), *of_events(job, row)),
        replay=("host:allocation=0",),
        actions=_actions(host=host, pieces=pieces is not None),
    )


def _in_pieces(peaks: Rows[MemoryPeak], rank: int) -> MemoryPeak | None:
    """The allocator of the rank whose memory is most fragmented."""
    rows = [row for row in peaks.of(rank) if (row.fragmentation or 0) > PIECES.value]
    return max(rows, key=lambda row: (row.reserved_bytes or 0, row.fragmentation or 0, row.component), default=None)


def _evidence(job: Job, peak: MemoryPeak) -> tuple[Evidence, ...]:
    return (
        fact(job, peak.rank, in_pieces_then(component=peak.component),
             round(peak.fragmentation or 0, 4), PIECES.unit, PIECES.value),
        fact(job, peak.rank, most_reserved(component=peak.component), peak.reserved_bytes or 0, "bytes"),
    )  # fmt: skip


def _actions(*, host: bool, pieces: bool) -> tuple[Action, ...]:
    if host:
        return (KEEP_PINNED_MEMORY,)
    return (*EXPANDABLE_SEGMENTS, *KEEP_CACHED_MEMORY) if pieces else KEEP_CACHED_MEMORY


COST = sentence("mem002.cost")
ASKS_NOTHING = sentence("mem002.asks_nothing")


@message("mem002.in_pieces_then")
def in_pieces_then(*, component: Name) -> None:
    """The share of reserved memory that holds no tensor."""


@message("mem002.in_pieces")
def in_pieces(*, fragmentation: Share, share: Share, on: Message | None = None) -> None:
    """Memory of the allocator is fragmented."""


@message("mem002.pinned_memory")
def pinned_memory(*, share: Share, on: Message | None = None) -> None:
    """Pinned memory is allocated inside steps."""


@message("mem002.device_memory")
def device_memory(*, share: Share, on: Message | None = None) -> None:
    """Device memory is allocated inside steps."""
