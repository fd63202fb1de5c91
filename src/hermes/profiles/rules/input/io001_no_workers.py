"""Batches are made by the training process itself.

## What it detects

Time in which the device has nothing to do while the loop reads and processes the next batch itself (a DataLoader
without workers), per step, as a share of the step. On a job without a device it is the time of these calls. Where
Python frames or stacks tell, reading and processing are told apart.

## Why it costs you

The thread that makes a batch is the one that feeds the device: neither goes on while the other works.

## When it is not a problem

In the first step of a capture alone, and for data that lies in memory and needs no work: then the share is small.

## What to do

Give the loader worker processes, or do once and offline what does not depend on chance. Where most of the time is
reading, bring the files nearer first: to a local disk, in few large files. Workers gain nothing where they have no core
of their own, and lose where the loader is read for a few batches only, for they are started each time: there make the
batches themselves cheaper.

## How to check

Feed one batch again and again for 50 steps: the step must shorten by the cost. Profile again with workers: the calls
take less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import DATA
from hermes.model.code_measures import CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.host_measures import Before, SettingValues
from hermes.model.input_measures import Fetches, InputRates
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._component import Spent
from hermes.profiles.rules._host import blamed, bound, fact, has_device, on, setting, within
from hermes.profiles.rules._input import fetch_loss, fetches_of, loop_facts, one_long_fetch, waits_before, where_verb
from hermes.profiles.rules._threads import CORES
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
CHEAPER = Limit(value=0.5, unit="of making batches is won at least", source="docs/evidence/host-limits.md")
MOSTLY = Limit(value=0.5, unit="of fetching", source="docs/evidence/host-limits.md")


@rule(
    "IO001",
    state="stable",
    fault=Fault.DATA_LOADING,
    cases=("IO-02", "IO-03", "IO-04", "IO-11", "IO-15", "IO-18", "IO-19", "IO-20", "IO-21"),
)
def no_workers(
    job: Job,
    free: Rows[StepFree],
    fetches: Rows[Fetches],
    rates: Rows[InputRates],
    unprofiled: Rows[Before],
    settings: Rows[SettingValues],
    lines: Rows[CodeLine],
) -> Iterator[Loss]:
    """At most one finding."""
    found = fetch_loss(job, fetches, unprofiled, "fetching batches", LIMIT, ("main process",))
    row = fetches_of(fetches, found.worst.rank) if found else None
    if found is None or row is None:
        return
    rank = row.rank
    part = _part(row)
    alone = _without_workers(job, settings, row)
    yield Loss(
        fault=_CAUSES.get(part),
        message=f"Making batches in the training process {where_verb(job, found)}{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, unprofiled, found, alone=bool(alone)),
        confidence=confidence("IO001.one_long_fetch" if one_long_fetch(row) else "IO001"),
        evidence=(*found.evidence, *loop_facts(job, rates, unprofiled, row), *_parts(job, row)),
        replay=("host:data-loading=0",) if has_device(job, rank) else (),
        apart=not within(free, rank, {DATA}),
        actions=(_cheaper(lines, rank, alone),) if alone else _actions(rates, found, part),
    )


def _without_workers(job: Job, settings: Rows[SettingValues], row: Fetches) -> str:
    """Why workers would gain nothing; empty where they may."""
    cores = setting(settings, row.rank, CORES)
    if cores is not None and cores.isdecimal() and int(cores) <= len(job.steps.counts):
        return f"the process has {cores} core{'' if cores == '1' else 's'}, and workers would share what the loop needs"
    if (row.epochs or 0) >= row.steps and row.fetches <= _FEW * (row.epochs or 0):
        return "the loader is read anew in each step, and its workers would be started as often"
    return ""


def _gain(job: Job, unprofiled: Rows[Before], found: Spent, *, alone: bool) -> Gain:
    gain = bound(job, found, "a batch is always ready", before=waits_before(job, unprofiled, found.worst.rank))
    if not alone or has_device(job, found.worst.rank):
        return gain
    method = "the host's own time: batches are made in half of it, or in none"
    return replace(gain, low_ns=round(gain.low_ns * CHEAPER.value), method=method, basis="bound")


def _cheaper(lines: Rows[CodeLine], rank: int, why: str) -> Action:
    """What to do where the loop itself must make the batches."""
    inside = [row for row in lines.of(rank) if row.within == DATA and row.place]
    most = max(inside, key=lambda row: (row.own_ns, row.place), default=None)
    at = f" at {most.said}" if most else ""
    own = (
        "What it does for each sample or batch and gives the same each time, do once: open and read files in __init__, "
        "keep offsets or decoded samples, index arrays instead of searching."
    )
    sliced = (
        "Where samples are rows of tensors, take a batch by one index, x[order[i : i + n]], in place of a call, a "
        "select and a stack for each row."
    )
    return Action(
        title=f"Make batches cheaper{at}",
        do=f"{own if most else sliced} {sliced if most else own} Workers would not help: {why}.",
        verify="The calls of __next__ take a small part of the step.",
        risk="Memory for what is kept.",
        source="PyTorch documentation of torch.utils.data: memory and start of worker processes",
        whole=True,
    )


_FEW = 16
"""Batches of a loader, up to which starting its workers is no small part of reading them."""
_CAUSES = {"reading": Fault.DATA_READING, "processing": Fault.DATA_PROCESSING}


def _part(row: Fetches) -> str:
    """`reading` or `processing`, where it is told that this is most of the time."""
    parts = {"reading": row.reading_ns, "processing": row.processing_ns}
    known = (name for name, ns in parts.items() if ns is not None and ns > MOSTLY.value * row.wait_ns)
    return next(known, "")


def _parts(job: Job, row: Fetches) -> Iterator[Evidence]:
    for name, ns in (("reading", row.reading_ns), ("processing", row.processing_ns)):
        if ns is not None:
            yield fact(job, row.rank, f"{name}, by frames or stacks", ns / max(row.wait_ns, 1), "of fetching", 0.5)


def _actions(rates: Rows[InputRates], found: Spent, part: str) -> tuple[Action, ...]:
    rate = next(iter(rates.of(found.worst.rank)), None)
    needed = max(rate.workers_needed or 1, 1) if rate else 1
    workers = Action(
        title="Give the DataLoader worker processes",
        do=f"DataLoader(…, num_workers={max(2, needed)}, persistent_workers=True, pin_memory=True); "
        f"{needed} would keep up with the step as it is without the wait, one more absorbs slow samples.",
        verify="The calls of __next__ take less than a millisecond, and the step shortens by the cost.",
        risk="The dataset must survive a fork or be picklable, each worker needs its own random seed, and a worker "
        "needs a free core and host memory.",
        source="PyTorch performance tuning guide: enable asynchronous data loading",
    )
    nearer = Action(
        title="Bring the files nearer",
        do="Copy the data to a local disk or memory before training, or pack samples into large sequential files "
        "(webdataset, MindRecord, Arrow) in place of one file each.",
        verify="Reading takes a small part of fetching in the next profile.",
        risk="Room on the disk and time to copy at the start.",
        source="MindStudio's advisor on slow data loaders: move data to a local cache",
    )
    return (nearer, workers) if part == "reading" else (workers,)
