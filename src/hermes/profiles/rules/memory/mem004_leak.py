"""Memory grows from step to step.

## What it detects

Allocated memory at the beginning of each step grows along a line over the steps of the capture, by a part of its peak.
The rule needs a memory curve and at least three steps. A leak costs no time yet; the job ends, or asks the driver again
and again, when memory is full. If ten steps or more grow by a hundredth of the peak each, the finding comes before all
other findings: such a job will soon run out of memory.

## Why it costs you

Tensors that are kept from step to step fill the device. Most often a list keeps losses with their graphs. Near the end
the allocator frees its cache and tries again, and then the job dies.

## When it is not a problem

Memory grows without a leak in the first steps of a job, while optimizer states and caches are created. Batches of
growing length need growing memory.

## What to do

Detach tensors that you keep: `losses.append(loss.detach())`. Empty the lists and caches that a step fills.

## How to check

After a hundred steps, a step begins with as much memory as after ten steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Message, Name, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import RELEASE_TENSORS
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.memory_measures import Holder, MemoryGrowth, MemoryPeak
from hermes.profiles.measure.memory.headroom import Headroom
from hermes.profiles.rules._host import fact
from hermes.profiles.rules.evidence_messages import LEFT_ON_DEVICE
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

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
    """At most one finding, of the allocator whose memory grows most."""
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
        message=grows(component=worst.component, megabytes=f"{worst.bytes_per_step / _MB:.1f}", on=some_of(job, ranks)),
        ranks=ranks,
        blames=(Blame(worst.component, "allocator"), *_holders(holders, worst.rank)),
        cost_ns=0,
        share=0.0,
        gain=Gain(low_ns=0, high_ns=0, method=NO_TIME_YET),
        confidence=confidence("MEM004"),
        evidence=(*_evidence(job, worst, share), *_left(job, rooms, worst)),
        # Caches grow in the first steps, too: a few points are no trend.
        endangers=worst.steps >= _SURE_STEPS and worst.bytes_per_step > SOON.value * _peak(allocated, worst),
        actions=RELEASE_TENSORS,
    )


def _peak(allocated: Mapping[tuple[int, str, int | None], int | None], row: MemoryGrowth) -> int:
    return allocated.get((row.rank, row.component, row.device_id)) or 0


def _evidence(job: Job, row: MemoryGrowth, share: float) -> tuple[Evidence, ...]:
    curve = "memory curve, where steps begin"
    return (
        fact(job, row.rank, GROWTH, round(share, 6), LIMIT.unit, LIMIT.value, curve),
        fact(job, row.rank, GROWTH, row.bytes_per_step, "bytes a step", source=curve),
        fact(job, row.rank, fit(steps=str(row.steps)), row.r2, FIT.unit, FIT.value, curve),
    )


def _left(job: Job, rooms: Rows[Headroom], row: MemoryGrowth) -> Iterator[Evidence]:
    """The memory left on the device, and the number of steps until it is full."""
    own = [room for room in rooms.of(row.rank) if room.device_id == row.device_id]
    for room in sorted(own, key=lambda one: one.free_bytes)[:1]:
        yield fact(job, row.rank, LEFT_ON_DEVICE, room.free_bytes, "bytes", source="its fullest step")
        steps = room.free_bytes // max(1, round(row.bytes_per_step))
        yield fact(job, row.rank, STEPS_UNTIL_FULL, steps, "steps")


def _holders(holders: Rows[Holder], rank: int) -> tuple[Blame, ...]:
    """The holders of most memory, if recorded."""
    rows = list(holders.of(rank))
    return tuple(Blame(f"{row.module or 'no module'}: {row.operator}", "operator", row.rank) for row in rows[:1])


NO_TIME_YET = sentence("mem004.no_time_yet")
GROWTH = sentence("mem004.growth")
STEPS_UNTIL_FULL = sentence("mem004.steps_until_full")


@message("mem004.grows")
def grows(*, component: Name, megabytes: Name, on: Message | None = None) -> None:
    """Memory grows from step to step."""


@message("mem004.fit")
def fit(*, steps: Name) -> None:
    """How well the growth fits a line."""
