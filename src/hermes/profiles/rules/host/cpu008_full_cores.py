"""The cores of the host are full.

## What it detects

- The mean load of the host's cores, if it was sampled (on Ascend `host_sys` of the profiler). A full processor alone is
  no finding: the device must also be idle while the host launches work or fetches batches.
- On a job without a device: how long the training thread could have run in a step and waited for a core. Hermes' own
  capture records this wait for the steps before the capture. The operator that was under way seems to take this time.

## Why it costs you

The thread that feeds the device waits for a core like any other thread. More threads than cores make each of them
slower.

## When it is not a problem

Full cores are no problem if workers keep up and the device is never idle, or if you share the host on purpose.

## What to do

Give ranks and workers no more threads than cores, bind each rank to cores of its own near its device, and move other
work to other hosts. `hermes fleet status` names the processes that take the cores of a running job.

## How to check

The load of the host's cores falls below the limit, and idle time of the device falls. `hermes run` shows how long the
training thread waited for a core.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Count, Message, Ranks, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import THREADS_BY_CORES
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.host_measures import Before, CoreLoad
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, Rows
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._dispatch import dispatch_cost
from hermes.profiles.rules._host import (
    blamed,
    bound,
    counted,
    counted_fact,
    counted_step,
    fact,
    host_loss,
    only_on,
)
from hermes.profiles.rules._input import CROWDED, fetch_cost
from hermes.profiles.rules._limits import CORES_FULL as FULL
from hermes.profiles.rules._limits import FREE_OF_STEP as LIMIT
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

_DELAY = "delay_ns"


@rule(
    "CPU008",
    state="preview",
    fault=Fault.CORES_FULL,
    cases=("CPU-34", "CPU-35", "CPU-36", "CPU-32", "CPU-44", "IO-05", "CPU-45"),
)
def full_cores(
    job: Job,
    fetches: Rows[Fetches],
    cores: Rows[CoreLoad],
    unprofiled: Rows[Before],
) -> Iterator[Loss]:
    """At most one finding of a free device, and at most one of a thread that waits for a core."""
    yield from _free_device(job, fetches, cores)
    yield from _waits_for_a_core(job, unprofiled)


def _waits_for_a_core(job: Job, unprofiled: Rows[Before]) -> Iterator[Loss]:
    length = counted_step(job, unprofiled, _DELAY)
    found = host_loss(job, WAITING, CROWDED, lambda split: counted(job, unprofiled, split.rank, _DELAY), length)
    if found is None:
        return
    yield Loss(
        message=waits_for_a_core(share=found.share, on=only_on(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, A_CORE_IS_FREE, before=True),
        confidence=confidence("CPU008"),
        evidence=(*found.evidence, *counted_fact(job, unprofiled, found.worst.rank, _DELAY)),
        actions=THREADS_BY_CORES,
    )


def _free_device(job: Job, fetches: Rows[Fetches], cores: Rows[CoreLoad]) -> Iterator[Loss]:
    load = {row.rank: row for row in cores if row.usage > FULL.value}
    found = host_loss(
        job,
        FREE_MEANWHILE,
        LIMIT,
        lambda split: _cost(job, fetches, split) if split.rank in load else None,
    )
    if found is None:
        return
    row = load[found.worst.rank]
    yield Loss(
        message=full(share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=FOR_WANT)),
        confidence=confidence("CPU008"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, mean_load(cores=row.cores), round(row.usage, 4), "of cores", FULL.value),
            fact(job, row.rank, BUSIEST, round(row.busiest, 4), "of a core"),
        ),
        actions=THREADS_BY_CORES,
    )


def _cost(job: Job, fetches: Rows[Fetches], split: StepSplit) -> int | None:
    fetching = fetch_cost(job, fetches, split, ("main process", "workers", "not told"))
    known = [cost for cost in (dispatch_cost(job, split.rank), fetching) if cost is not None]
    return sum(known) if known else None


WAITING = sentence("cpu008.waiting")
A_CORE_IS_FREE = sentence("cpu008.a_core_is_free")
FREE_MEANWHILE = sentence("cpu008.free_meanwhile")
FOR_WANT = sentence("cpu008.for_want")
BUSIEST = sentence("cpu008.busiest")


@message("cpu008.waits")
def waits_for_a_core(*, share: Share, on: Ranks | None = None) -> None:
    """The training thread is ready, and other work occupies the cores."""


@message("cpu008.full")
def full(*, share: Share, on: Message | None = None) -> None:
    """The host has no idle core, and the device waits."""


@message("cpu008.mean_load")
def mean_load(*, cores: Count) -> None:
    """The mean load of all cores."""
