"""Each step writes to fresh memory pages that the system must first provide.

## What it detects

On a job without a device, Hermes' monitor counts minor page faults per step before the capture. The rule multiplies the
count by the cost of one fault, as a share of the step. Hermes measures this cost on the machine when the capture
begins, or takes it from captured steps that are shorter without faults.

## Why it costs you

The system fills each page of 4 KB with zeros at the first access. Some allocators, such as glibc's, return large
tensors to the system at once, and pay for these zeros again in every step.

## When it is not a problem

Page faults are usual in the first steps, while caches and the heap grow.

## What to do

Let the allocator keep freed memory, or write results into existing tensors (`out=`, in place).

## How to check

A step has fewer page faults (`hermes watch`, or `perf stat -e minor-faults`) and is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Count, Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import Before
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import (
    BEFORE_IT,
    before_of,
    before_without_device,
    blamed,
    bound,
    counted_step,
    fact,
    host_loss,
)  # fmt: skip
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_PAGE = 4096


@rule("MEM006", state="preview", layer="memory", fault=Fault.FRESH_MEMORY, cases=("MEM-14", "CMP-37"))
def fresh_pages(job: Job, unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding, of memory pages that the system hands out in each step."""
    found = host_loss(
        job,
        FAULTS,
        LIMIT,
        lambda split: _cost(job, unprofiled, split.rank),
        counted_step(job, unprofiled, "minor_faults"),
    )
    row = before_of(unprofiled, found.worst.rank) if found else None
    if found is None or row is None or row.minor_faults is None:
        return
    yield Loss(
        message=pages(pages=row.minor_faults, share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, KEPT, before=True),
        confidence=confidence("MEM006"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, FAULTS_A_STEP, row.minor_faults, "faults", source=BEFORE_IT),
            fact(job, row.rank, ONE_OF_THEM, row.fault_ns or 0, "ns", source="measured there"),
            fact(job, row.rank, FRESH, row.minor_faults * _PAGE, "bytes", source=BEFORE_IT),
        ),
        actions=(_KEEP,),
    )


def _cost(job: Job, unprofiled: Rows[Before], rank: int) -> int | None:
    row = before_without_device(job, unprofiled, rank)
    return None if row is None or row.minor_faults is None or not row.fault_ns else row.minor_faults * row.fault_ns


FAULTS = sentence("mem006.faults")
KEPT = sentence("mem006.kept")
FAULTS_A_STEP = sentence("mem006.faults_a_step")
ONE_OF_THEM = sentence("mem006.one_of_them")
FRESH = sentence("mem006.fresh")


@message("mem006.pages")
def pages(*, pages: Count, share: Share, on: Message | None = None) -> None:
    """The system hands out new pages of memory in each step."""


_KEEP = Action(
    title=sentence("mem006.keep"),
    do=sentence("mem006.keep_do"),
    verify=sentence("mem006.keep_verify"),
    risk=sentence("mem006.keep_risk"),
    source="mallopt(3)",
    cases=("MEM-14",),
)
