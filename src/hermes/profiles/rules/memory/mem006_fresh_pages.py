"""Operators write to memory that the system has to hand out first, in each step.

## What it detects

On a job without a device: page faults without input a step, as Hermes' monitor counted them before the capture, times
what one costs on that machine, measured when the capture began, or told by captured steps that are shorter without
them; as a share of the step.

## Why it costs you

The system fills each page of 4 KB with zeros when it is touched for the first time. An allocator that gives large
tensors back to the system at once, as glibc's does, pays that anew in every step.

## When it is not a problem

In the first steps, while caches and the heap grow.

## What to do

Let the allocator keep what is freed, or write results into tensors that are kept (`out=`, in
place).

## How to check

Page faults of a step fall (`hermes watch`, or `perf stat -e minor-faults`), and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import (
    BEFORE_IT,
    before_of,
    before_without_device,
    blamed,
    bound,
    counted_step,
    fact,
    host_loss,
    on,
)  # fmt: skip
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_PAGE = 4096


@rule("MEM006", state="preview", fault=Fault.FRESH_MEMORY, cases=("MEM-14", "CMP-37"))
def fresh_pages(job: Job, unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "page faults",
        LIMIT,
        lambda split: _cost(job, unprofiled, split.rank),
        counted_step(job, unprofiled, "minor_faults"),
    )
    row = before_of(unprofiled, found.worst.rank) if found else None
    if found is None or row is None or row.minor_faults is None:
        return
    yield Loss(
        message=f"{row.minor_faults:,} pages of fresh memory a step take {found.share:.0%} of it{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "memory is kept, and no page is new", before=True),
        confidence=confidence("MEM006"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, "page faults a step", row.minor_faults, "faults", source=BEFORE_IT),
            fact(job, row.rank, "one of them", row.fault_ns or 0, "ns", source="measured there"),
            fact(job, row.rank, "fresh memory a step", row.minor_faults * _PAGE, "bytes", source=BEFORE_IT),
        ),
        actions=(
            Action(
                title="Keep the memory of large tensors",
                do="export MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=2147483648; in the "
                "code: out= of torch functions, operators in place, buffers that are made "
                "once.",
                verify="Page faults of a step fall, and the step is shorter.",
                risk="More memory stays taken.",
                source="mallopt(3)",
            ),
        ),
    )


def _cost(job: Job, unprofiled: Rows[Before], rank: int) -> int | None:
    row = before_without_device(job, unprofiled, rank)
    return None if row is None or row.minor_faults is None or not row.fault_ns else row.minor_faults * row.fault_ns
