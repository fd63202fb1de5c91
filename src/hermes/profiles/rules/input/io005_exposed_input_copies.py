"""Batches are copied to the device with nothing beside the copy.

## What it detects

The part of a step in which a copy from the host runs and the device neither computes nor communicates, as a share of
the step, over the whole capture. How much came from pageable memory is told where the profiler names it (CUDA, ROCm).

## Why it costs you

A copy from pageable memory goes through a buffer of the driver and blocks the host; one from pinned memory that the
loop waits for stands before the step instead of beside the last one.

## When it is not a problem

When what is copied is no input: offloaded states and weights are read back by design, and MEM001 counts all copies.

## What to do

Pin the batches and copy them without blocking, one batch ahead, on a stream of their own; one large copy instead of
many small ones; the type that the data has instead of a wider one.

## How to check

Profile again: copies from the host run beside kernels, and their memory is called pinned.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import COPY_AHEAD
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.input_measures import InputCopies
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import blamed, fact, host_loss, on
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.05,
    unit="of step",
    source="system rule of TraceLens 0.1: copies between host and device above 5 % of the time",
)
PAGEABLE = Limit(value=0.5, unit="of bytes", source="docs/evidence/host-limits.md")


@rule(
    "IO005",
    state="preview",
    fault=Fault.EXPOSED_INPUT_COPIES,
    cases=("IO-08", "IO-09", "IO-10", "IO-12", "IO-22", "CPU-20"),
)
def exposed_input_copies(job: Job, copies: Rows[InputCopies]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(job, "copies from the host beside nothing", LIMIT, lambda split: _cost(job, copies, split.rank))
    row = _copies(copies, found.worst.rank) if found else None
    if found is None or row is None:
        return
    pageable = (row.pageable_bytes or 0) > PAGEABLE.value * (row.bytes or 0)
    steps = max(1, job.steps.counts.get(row.rank, 1))
    yield Loss(
        fault=Fault.COPIES_FROM_PAGEABLE_MEMORY if pageable else None,
        message=f"Copies from the host{' out of pageable memory' if pageable else ''} take {found.share:.0%} "
        f"of the step with nothing beside them{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: every copy from the host runs beside compute"),
        confidence=confidence("IO005"),
        evidence=(*found.evidence, *_facts(job, row, steps)),
        replay=("copy:*=0",),
        actions=(COPY_AHEAD,),
    )


def _copies(copies: Rows[InputCopies], rank: int) -> InputCopies | None:
    return next(iter(copies.of(rank)), None)


def _cost(job: Job, copies: Rows[InputCopies], rank: int) -> int | None:
    row = _copies(copies, rank)
    return None if row is None else row.exposed_ns // max(1, job.steps.counts.get(rank, 1))


def _facts(job: Job, row: InputCopies, steps: int) -> Iterator[Evidence]:
    yield fact(job, row.rank, "copies from the host", row.copies / steps, "a step")
    if row.bytes is not None:
        yield fact(job, row.rank, "mean copy", row.bytes / row.copies, "bytes")
        if row.time_ns:
            yield fact(job, row.rank, "speed of these copies", round(row.bytes / row.time_ns, 3), "GB/s")
    if row.pageable_bytes is not None and row.bytes:
        share = row.pageable_bytes / row.bytes
        yield fact(job, row.rank, "copied from pageable memory", share, "of bytes", PAGEABLE.value)
