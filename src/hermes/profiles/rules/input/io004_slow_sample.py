"""One slow sample holds back batches that are ready.

## What it detects

The loop waits at the queue of its workers while batches arrive that are not yet due: the one that is due comes late,
and the loader gives batches in order. It needs a wait beyond the limit and early batches in a good part of the fetches;
only Python frames tell both.

## Why it costs you

Workers have made enough batches, and the device waits all the same: for the order, not for work.

## When it is not a problem

When every worker is slow (IO002): then few batches come early. Right after a start, when all workers begin at once.

## What to do

Take batches as they come, give a longer queue, or make the work of samples alike: sort by length, split what is long.

## How to check

Time `__getitem__` of each sample: its 99th percentile lies far above its median. With `in_order=False` the wait goes.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.profiles.rules._host import blamed, bound, fact, has_device, host_loss, on
from hermes.profiles.rules._input import fetch_cost, fetches_of, loop_facts
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.02, unit="of step", source="docs/evidence/host-limits.md")
EARLY = Limit(value=0.2, unit="of fetches", source="docs/evidence/host-limits.md")


@rule("IO004", state="preview", fault=Fault.SLOW_SAMPLE, cases=("IO-14", "IO-07"))
def slow_sample(job: Job, fetches: Rows[Fetches], rates: Rows[InputRates], unprofiled: Rows[Before]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(job, "waiting for the batch that is due", LIMIT, lambda split: _cost(job, fetches, split))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    share = (row.early or 0) / row.fetches
    yield Loss(
        message=f"Waiting for one batch while others are ready takes {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "batches are taken as they come"),
        confidence=confidence("IO004"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, "batches that came before their turn", share, "of fetches", EARLY.value),
            *loop_facts(job, rates, unprofiled, row),
        ),
        replay=("host:data-loading=0",) if has_device(job, row.rank) else (),
        actions=(
            Action(
                title="Take batches as they come",
                do="DataLoader(…, in_order=False); or prefetch_factor=8, so that the queue outlasts a slow sample.",
                verify="Fetches of a millisecond and more are gone from the next profile.",
                risk="The order differs between runs, and slow samples gather at the end of an epoch.",
                source="PyTorch documentation of torch.utils.data: in_order",
            ),
        ),
    )


def _cost(job: Job, fetches: Rows[Fetches], split: StepSplit) -> int | None:
    row = fetches_of(fetches, split.rank)
    if row is None or row.queue_wait_ns is None or (row.early or 0) <= EARLY.value * row.fetches:
        return None
    lost = fetch_cost(job, fetches, split, ("workers",))
    return None if lost is None else min(lost, row.queue_wait_ns // max(1, row.steps))
