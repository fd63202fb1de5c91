"""The cores of the host are full.

## What it detects

The mean load of the host's cores, where it was sampled (on Ascend `host_sys` of the profiler), together with a loss
that a busy processor explains: free time of the device while the host hands over work or fetches batches. A full
processor alone is no finding.

## Why it costs you

The thread that feeds the device waits for its turn like any other. More threads than cores make each of them slower.

## When it is not a problem

When the cores are full of workers that keep up, and the device is never free.

## What to do

Give ranks and workers no more threads than cores, bind each rank to cores of its own near its device, and move other
work to other hosts.

## How to check

The load falls below the limit, and free time with it; `hermes run` shows how long the training thread waited for a
core.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import THREADS_BY_CORES
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.host_measures import Contention, StepHost
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.measures import StepSplit
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._dispatch import dispatch_cost
from hermes.profiles.rules._host import blamed, fact, host_loss, on
from hermes.profiles.rules._input import fetch_cost
from hermes.profiles.rules._limits import FREE_OF_STEP as LIMIT
from hermes.profiles.rules.rule import rule

FULL = Limit(value=0.9, unit="of cores", source="docs/evidence/host-limits.md")


@rule(
    "CPU008",
    state="preview",
    fault=Fault.CORES_FULL,
    cases=("CPU-34", "CPU-35", "CPU-36", "CPU-32", "CPU-44", "IO-05", "CPU-45"),
)
def full_cores(
    job: Job, free: Rows[StepFree], fetches: Rows[Fetches], host_steps: Rows[StepHost], cores: Rows[Contention]
) -> Iterator[Loss]:
    """At most one finding."""
    load = {row.rank: row for row in cores if row.usage > FULL.value}
    found = host_loss(
        job,
        "free while the host hands over work or fetches batches",
        LIMIT,
        lambda split: _cost(job, free, fetches, host_steps, split) if split.rank in load else None,
    )
    if found is None:
        return
    row = load[found.worst.rank]
    yield Loss(
        message=f"The host's cores are full while the device waits for {found.share:.0%} of the step{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: all that the host does late is for want of a core"),
        confidence=confidence("CPU008"),
        evidence=(
            *found.evidence,
            fact(job, row.rank, f"mean load of {row.cores} cores", round(row.usage, 4), "of cores", FULL.value),
            fact(job, row.rank, "load of the busiest core", round(row.busiest, 4), "of a core"),
        ),
        actions=(THREADS_BY_CORES,),
    )


def _cost(
    job: Job, free: Rows[StepFree], fetches: Rows[Fetches], host_steps: Rows[StepHost], split: StepSplit
) -> int | None:
    fetching = fetch_cost(job, fetches, split, ("main process", "workers", "not told"))
    known = [cost for cost in (dispatch_cost(free, host_steps, split.rank), fetching) if cost is not None]
    return sum(known) if known else None
