"""Workers are started anew.

## What it detects

Time in which the loop makes an iterator of the loader and with it new worker processes (`DataLoader.__iter__`), and in
which it then waits for their first batch, per step, as a share of the step. Python frames tell it (`with_stack`), and a
capture of Hermes, which counts the starts in all steps before it.

## Why it costs you

Each new worker imports, opens the dataset and fills its queue before the first batch comes. Nothing else runs
meanwhile.

## When it is not a problem

When the capture holds the only start of a long epoch: the share of an epoch is what counts, and a short capture
overstates it. Where not each step of the capture starts one, and waits of the steps before it do not tell, the finding
is a preview.

## What to do

Keep the workers: `persistent_workers=True`, the loader made once outside of the loop over epochs. Do the same for the
loader of the evaluation.

## How to check

The process numbers of the workers stay the same over epochs, and the first step of an epoch is as fast as the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import KEEP_WORKERS
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.profiles.rules._component import Spent
from hermes.profiles.rules._host import (
    BEFORE_IT,
    before_of,
    blamed,
    bound,
    counted,
    counted_step,
    fact,
    host_loss,
    on,
    seen_or_counted,
)
from hermes.profiles.rules._input import WAITED, fetches_of, first_waits_ns, starting
from hermes.profiles.rules.rule import rule

_WHAT = "starting iterators of the loader"
LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO003", state="stable", fault=Fault.WORKERS_STARTED_ANEW, cases=("IO-06", "IO-24"))
def workers_anew(job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding."""
    # What is left out of the steps before, as evaluations are, starts iterators of its own.
    before = _counted(job, unprofiled) or _before(job, fetches, unprofiled)
    found, earlier = seen_or_counted(_in_capture(job, fetches), before)
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=f"Starting the loader anew takes {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "workers stay over epochs", before=earlier),
        confidence=confidence("IO003"),
        state="stable" if before is not None or (row.epochs or 0) >= row.steps else "preview",
        evidence=(
            *found.evidence,
            fact(job, row.rank, "iterators made a step", (row.epochs or 0) / max(1, row.steps), "iterators"),
            fact(job, row.rank, "making them", (row.epoch_ns or 0) / max(1, row.steps), "ns a step"),
            fact(job, row.rank, "waits for first batches", first_waits_ns(row) / max(1, row.steps), "ns a step"),
            *_starts(job, unprofiled, row.rank),
        ),
        actions=(KEEP_WORKERS,),
    )


def _in_capture(job: Job, fetches: Rows[Fetches]) -> Spent | None:
    def cost(split: StepSplit) -> int | None:
        row = fetches_of(fetches, split.rank)
        if row is None or row.epoch_ns is None:
            return None
        return (row.epoch_ns + first_waits_ns(row)) // max(1, row.steps)

    return host_loss(job, _WHAT, LIMIT, cost)


def _before(job: Job, fetches: Rows[Fetches], unprofiled: Rows[Before]) -> Spent | None:
    def cost(split: StepSplit) -> int | None:
        row, waited = fetches_of(fetches, split.rank), counted(job, unprofiled, split.rank, WAITED)
        return None if row is None or waited is None else round(waited * starting(row))

    return host_loss(job, _WHAT, LIMIT, cost, counted_step(job, unprofiled, WAITED))


def _counted(job: Job, unprofiled: Rows[Before]) -> Spent | None:
    """As the monitor counted starts in all steps before the capture; the job's own first one is not among them."""

    def cost(split: StepSplit) -> int | None:
        return counted(job, unprofiled, split.rank, "start_ns")

    return host_loss(job, _WHAT, LIMIT, cost, counted_step(job, unprofiled, "start_ns"))


def _starts(job: Job, unprofiled: Rows[Before], rank: int) -> Iterator[Evidence]:
    row = before_of(unprofiled, rank)
    if row is not None and row.starts:
        yield fact(job, rank, "starts of workers", row.starts, "starts", source=BEFORE_IT)
