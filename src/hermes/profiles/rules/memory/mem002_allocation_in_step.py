"""Device memory is taken from the driver while the step runs.

## What it detects

Time in which the device has nothing to do while the host takes device memory from the driver or gives it back
(`cudaMalloc`, `cudaFree`, `aclrtMallocPhysical`, mapping of segments), per step, as a share of the step.

## Why it costs you

These calls are slow, and freeing waits for the device. The caching allocator exists so that steps need none.

## When it is not a problem

In the first steps, while the allocator fills its cache: a capture that holds the start of a program shows little else.

## What to do

Drop `empty_cache()` from the loop, leave some memory free, and let segments grow.

## How to check

Profile again after the warm-up: no such call is left.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.blocking import takes_host_memory
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import KEEP_CACHED_MEMORY, KEEP_PINNED_MEMORY
from hermes.knowledge.host_work import ALLOCATION
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import AllocatorCalls
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import blamed, event_cost, events_of, has_device, host_loss, of_events, on, within
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")


@rule(
    "MEM002",
    state="preview",
    fault=Fault.ALLOCATOR_CALLS,
    cases=("MEM-02", "MEM-03", "MEM-07", "MEM-16", "MEM-17", "MEM-18", "CPU-21", "IO-26"),
)
def allocation_in_step(job: Job, free: Rows[StepFree], events: Rows[AllocatorCalls]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "free while memory is taken or given back",
        LIMIT,
        lambda split: event_cost(job, events, split.rank, ALLOCATION) if has_device(job, split.rank) else None,
    )
    row = events_of(events, found.worst.rank, ALLOCATION) if found else None
    if found is None or row is None:
        return
    pinned = sum(ns for name, _, ns in row.names if takes_host_memory(name))
    host = 2 * pinned > sum(ns for _, _, ns in row.names)
    what = "pinned memory of the host" if host else "device memory"
    yield Loss(
        message=f"Taking and giving back {what} leaves the device free for {found.share:.0%} of the step"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(name) for name, _, _ in row.names[:1])),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the allocator asks the driver for nothing"),
        confidence=confidence("MEM002"),
        evidence=(*found.evidence, *of_events(job, row)),
        replay=("host:allocation=0",),
        apart=not within(free, row.rank, {ALLOCATION}),
        actions=(KEEP_PINNED_MEMORY if host else KEEP_CACHED_MEMORY,),
    )
