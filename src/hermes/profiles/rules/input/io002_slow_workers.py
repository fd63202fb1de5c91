"""Worker processes make batches slower than the step takes them.

## What it detects

Time in which the device has nothing to do while the loop waits for its workers (or for a pipeline of which the profile
does not tell who works in it), per step, as a share of the step. On a job without a device it is the time of the
waiting itself, of receiving batches where the loop computes a fifth of the step or more to do so, and of waiting for a
core where that is a tenth or more: workers with several threads each take them all. Demand is how
many batches a second the step would take if none made it wait, supply how many come.

## Why it costs you

A step cannot begin before its batch is there: the device stands still for the rest of the time.

## When it is not a problem

For the first batches of an epoch, whose workers have just started (IO003), and behind a checkpoint that emptied the
queue. A wait for one slow sample while others are ready is IO004. Where the loop waits for cores, any other program
may hold them: what is sure to be won is the wait for batches, and where that is below the limit the finding is a
preview.

## What to do

With cores free, raise the number of workers by demand over supply. With none free more workers make it worse: make a
batch cheaper instead, do work offline, or decode on the device. Where batches are long to receive, hand them over as
few tensors: each comes by a piece of shared memory of its own, and lists of numbers are unpickled one by one.

## How to check

Feed one batch again and again for 50 steps: the step must shorten by the cost. Then try 1, 2, 4, 8 workers and look
where the step stops getting shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import DATA
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Gain, Loss
from hermes.model.host_measures import Before
from hermes.model.input_measures import Fetches, InputQueue, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._component import Spent
from hermes.profiles.rules._host import BEFORE_IT, blamed, bound, counted, fact, has_device, on, within
from hermes.profiles.rules._input import (
    WAITED,
    crowded_ns,
    fetch_loss,
    fetches_of,
    loop_facts,
    one_long_fetch,
    received_ns,
    receives,
    waits_before,
    where_verb,
)
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
EMPTY = Limit(
    value=0.5, unit="of samples", source="MindInsight's table of queues: an output queue that is often empty is slow"
)
CORES_FULL = Limit(value=0.9, unit="of cores", source="docs/evidence/host-limits.md")


@rule(
    "IO002",
    state="stable",
    fault=Fault.TOO_FEW_WORKERS,
    cases=(
        "IO-01",
        "IO-03",
        "IO-04",
        "IO-05",
        "IO-07",
        "IO-11",
        "IO-13",
        "IO-15",
        "IO-18",
        "IO-19",
        "IO-20",
        "IO-21",
        "IO-23",
        "IO-25",
        "ENV-08",
        "MEM-13",
    ),
)
def slow_workers(
    job: Job,
    free: Rows[StepFree],
    fetches: Rows[Fetches],
    rates: Rows[InputRates],
    queues: Rows[InputQueue],
    unprofiled: Rows[Before],
) -> Iterator[Loss]:
    """At most one finding."""
    found = fetch_loss(job, fetches, unprofiled, "waiting for batches", LIMIT, ("workers", "not told"))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    rank = row.rank
    rate = next(iter(rates.of(rank)), None)
    slow = _slow_operation(queues, rank)
    apart, crowded = receives(job, unprofiled, rank), crowded_ns(job, unprofiled, rank)
    full = bool(crowded) or _full(rate)
    waited = counted(job, unprofiled, rank, WAITED)
    others = bool(crowded) and waited is not None and not by_share(LIMIT, waited / found.worst.window_ns)
    more = " and receiving them" if apart else " and for a core" if crowded else ""
    yield Loss(
        # Any process may hold a core that the loop wants: only who waits for batches, too, has slow workers.
        state="preview" if others else "stable",
        fault=Fault.BATCHES_OF_MANY_TENSORS if apart else Fault.NO_CORE_FOR_WORKERS if full else Fault.TOO_FEW_WORKERS,
        message=f"Waiting for batches{more} {where_verb(job, found)}"
        f"{on(job, found)}{', and no core is free for more workers' if full else ''}",
        ranks=found.ranks,
        blames=blamed(job, found, *((Blame(slow.name),) if slow else ())),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_won(job, found, waited if crowded else None, before=waits_before(job, unprofiled, rank)),
        confidence=confidence("IO002.crowded_or_one_long_fetch" if one_long_fetch(row) or crowded else "IO002"),
        evidence=(
            *found.evidence,
            *_received(job, unprofiled, rank, apart),
            *_crowded(job, rank, crowded),
            *loop_facts(job, rates, unprofiled, row),
            *_queue(job, slow),
        ),
        replay=("host:data-loading=0",) if has_device(job, rank) else (),
        apart=not within(free, rank, {DATA}),
        actions=(*((_FEWER,) if apart else ()), *(() if full else (_more(rate),)), _cheaper()),
    )


def _won(job: Job, found: Spent, waited_ns: int | None, *, before: bool) -> Gain:
    """All of it; where the loop waits for cores, at least what it waits for batches: others may hold the cores."""
    gain = bound(job, found, "a batch is always ready", before=before)
    return gain if waited_ns is None else replace(gain, low_ns=min(gain.low_ns, waited_ns))


def _received(job: Job, unprofiled: Rows[Before], rank: int, apart: bool) -> Iterator[Evidence]:
    if apart:
        yield fact(job, rank, "of it computed by the loop itself", received_ns(job, unprofiled, rank), "ns",
                   source=BEFORE_IT)  # fmt: skip


def _crowded(job: Job, rank: int, delay_ns: int) -> Iterator[Evidence]:
    if delay_ns:
        yield fact(job, rank, "the loop could run and waited for a core", delay_ns, "ns", source=BEFORE_IT)


def _full(rate: InputRates | None) -> bool:
    """Whether it was sampled that the cores are taken."""
    if rate is None or rate.cores_free is None or not rate.cores:
        return False
    return 1 - rate.cores_free / rate.cores > CORES_FULL.value


def _slow_operation(queues: Rows[InputQueue], rank: int) -> InputQueue | None:
    """Of a pipeline whose queues were sampled the operation nearest to the data whose output is often empty."""
    rows = [one for one in queues.of(rank) if one.queue != "device" and one.capacity]
    return next((one for one in reversed(rows) if (one.empty or 0) > EMPTY.value), None)


def _queue(job: Job, slow: InputQueue | None) -> Iterator[Evidence]:
    if slow is not None:
        what = f"output queue of {slow.name} empty"
        yield fact(job, slow.rank, what, slow.empty or 0, "of samples", EMPTY.value, slow.source)


def _more(rate: InputRates | None) -> Action:
    known = rate is not None and rate.demand and rate.supply
    times = rate.demand / rate.supply if rate and rate.demand and rate.supply else 2.0
    by = f"{math.ceil(10 * times) / 10:.1f} times as many as now" if known else "twice as many as now"
    return Action(
        title="Give the loader more workers",
        do=f"DataLoader(…, num_workers={by}, persistent_workers=True, prefetch_factor=4), no more than cores are free; "
        "MindSpore: num_parallel_workers of the slow operation.",
        verify="Fetches take less than a millisecond in the next profile, and the step shortens.",
        risk="Host memory for every worker; beyond the free cores workers slow the thread that feeds the device.",
        source="PyTorch documentation of torch.utils.data; MindStudio's advisor on slow data loaders",
    )


_FEWER = Action(
    title="Hand batches over as few tensors",
    do="Join in collate_fn, which workers run, what belongs to a batch: torch.stack, "
    "torch.nn.utils.rnn.pad_sequence(boxes, batch_first=True) with a mask, or torch.cat with the lengths beside it; no "
    "lists of tensors or of numbers.",
    verify="Receiving a batch takes less than a millisecond.",
    risk="Padding takes room; the loss needs the mask.",
    source="PyTorch documentation of torch.utils.data: collate_fn; case IO-13",
)


def _cheaper() -> Action:
    return Action(
        title="Make a batch cheaper",
        do="Do offline what does not depend on chance (resize, tokenise, decode), keep one thread in each worker "
        "(torch.set_num_threads(1), cv2.setNumThreads(0)), decode on the device, or read from a local disk.",
        verify="The same number of workers makes more batches a second.",
        risk="Precomputed data takes room and fixes what was random.",
        source="MindStudio's advisor on slow data loaders; PyTorch documentation of torch.utils.data",
    )
