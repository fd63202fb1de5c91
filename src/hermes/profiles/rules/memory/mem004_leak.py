"""Memory grows from step to step.

## What it detects

What an allocator has handed out at the beginning of each step, over the steps of the capture: it grows along a line, by
a part of its peak. It needs a memory curve and at least three steps. It costs no time yet; the job ends, or asks the
driver again and again, when memory is full. Where ten steps or more grow by a hundredth of the peak each, it stands
before all that costs time: such a job does not last.

## Why it costs you

Tensors that are kept from step to step, most often a loss with its graph in a list, fill the device. Near the end the
allocator frees its cache and tries again, and then the job dies.

## When it is not a problem

In the first steps of a job, while optimizer states and caches are made; with batches of growing length.

## What to do

Detach what is kept: `losses.append(loss.detach())`; empty the lists and caches that a step fills.

## How to check

After a hundred steps the memory at the beginning of a step is what it was after ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import RELEASE_TENSORS
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak
from hermes.profiles.measure.memory.headroom import Headroom
from hermes.profiles.rules._host import fact, on_ranks
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.001, unit="of the peak a step", source="docs/evidence/host-limits.md")
FIT = Limit(value=0.9, unit="of the variance", source="docs/evidence/host-limits.md")
SOON = Limit(
    value=0.01,
    unit="of the peak a step ends a job soon: memory doubles in a hundred steps",
    source="docs/evidence/host-limits.md",
)
_SURE_STEPS = 10
_MB = 1_000_000


@rule("MEM004", state="preview", fault=Fault.GROWING_MEMORY, cases=("MEM-04", "MEM-16", "CPU-28"))
def leak(
    job: Job, peaks: Rows[MemoryPeak], growth: Rows[MemoryGrowth], holders: Rows[Holder], rooms: Rows[Headroom]
) -> Iterator[Loss]:
    """At most one finding, of the allocator that grows most."""
    allocated = {(row.rank, row.component, row.device_id): row.allocated_bytes for row in peaks}
    grown = [
        (row.bytes_per_step / peak, row)
        for row in growth
        if (peak := allocated.get((row.rank, row.component, row.device_id)))
        and row.r2 > FIT.value
        and row.bytes_per_step > LIMIT.value * peak
    ]
    if not grown:
        return
    share, worst = max(grown, key=lambda one: (one[1].bytes_per_step, -one[1].rank, one[1].component))
    ranks = tuple(sorted({row.rank for _, row in grown}))
    yield Loss(
        message=f"Memory of {worst.component} grows by {worst.bytes_per_step / _MB:.1f} MB each step"
        f"{on_ranks(job, ranks)}",
        ranks=ranks,
        blames=(Blame(worst.component, "allocator"), *_holders(holders, worst.rank)),
        cost_ns=0,
        share=0.0,
        gain=Gain(low_ns=0, high_ns=0, method="no time yet: it keeps the job from running out of memory"),
        confidence=confidence("MEM004"),
        evidence=(*_evidence(job, worst, share), *_left(job, rooms, worst)),
        # Caches of the first steps grow, too: a few points are no trend.
        endangers=worst.steps >= _SURE_STEPS and worst.bytes_per_step > SOON.value * _peak(allocated, worst),
        actions=(RELEASE_TENSORS,),
    )


def _peak(allocated: Mapping[tuple[int, str, int | None], int | None], row: MemoryGrowth) -> int:
    return allocated.get((row.rank, row.component, row.device_id)) or 0


def _evidence(job: Job, row: MemoryGrowth, share: float) -> tuple[Evidence, ...]:
    curve = "memory curve, where steps begin"
    return (
        fact(job, row.rank, "growth", round(share, 6), LIMIT.unit, LIMIT.value, curve),
        fact(job, row.rank, "growth", row.bytes_per_step, "bytes a step", source=curve),
        fact(job, row.rank, f"fit to a line through {row.steps} steps", row.r2, FIT.unit, FIT.value, curve),
    )


def _left(job: Job, rooms: Rows[Headroom], row: MemoryGrowth) -> Iterator[Evidence]:
    """What the device has left, and how many steps fill it."""
    own = [room for room in rooms.of(row.rank) if room.device_id == row.device_id]
    for room in sorted(own, key=lambda one: one.free_bytes)[:1]:
        yield fact(job, row.rank, "left on the device", room.free_bytes, "bytes", source="its fullest step")
        steps = room.free_bytes // max(1, round(row.bytes_per_step))
        yield fact(job, row.rank, "steps until it is full, at this growth", steps, "steps")


def _holders(holders: Rows[Holder], rank: int) -> tuple[Blame, ...]:
    """Who holds most, where that is recorded."""
    rows = list(holders.of(rank))
    return tuple(Blame(f"{row.module or 'no module'}: {row.operator}", "operator", row.rank) for row in rows[:1])
