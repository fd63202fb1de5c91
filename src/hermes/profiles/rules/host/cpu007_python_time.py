"""The device waits while the host is in no recorded call.

## What it detects

Free time of the device, in the window of the typical step, while the thread that feeds it is in no operator, no runtime
call and no Python frame that the profile has, as a share of the window. Ranks without any recorded call say nothing.

## Why it costs you

The host does something that keeps it from launching work: Python code between operators, a garbage collection, a lock,
another process on its core, or swapped memory. The profile cannot tell which.

## When it is not a problem

Between two parts of a script that were captured together, without steps. When stacks are off, ordinary Python code
shows here too.

## What to do

Record what is missing: Python stacks, collections, and the counters of the monitor; then follow the rule that fires.

## How to check

A capture with stacks and collections names the calls: this share falls, and that of a known cause grows.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import RECORD_THE_HOST, RECORD_THE_HOST_SOURCE
from hermes.knowledge.host_work import GC
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.host_measures import HostEvents, StepHost
from hermes.model.job import Job, Rows
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._dispatch import silent_cost
from hermes.profiles.rules._host import LAUNCHING, blamed, fact, free_for, host_loss, on, window_ns
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule


@rule(
    "CPU007",
    state="stable",
    fault=Fault.UNRECORDED_HOST_TIME,
    cases=(
        "CPU-30",
        "CPU-29",
        "CPU-34",
        "CPU-37",
        "CPU-38",
        "CPU-39",
        "CPU-40",
        "CPU-41",
        "CPU-42",
        "CPU-44",
        "ENV-03",
        "ENV-09",
        "MEM-12",
    ),
)
def python_time(job: Job, free: Rows[StepFree], host_steps: Rows[StepHost], events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "free, the host in no recorded call",
        LIMIT,
        lambda split: silent_cost(free, host_steps, split.rank),
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    told = next((row.source for row in events.of(rank) if row.what == GC), "")
    collector = f" Of collections here: {told}." if told else ""
    yield Loss(
        message=f"The device is free for {found.share:.0%} of the step while the host is in no recorded call"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: what the host did there is gone"),
        confidence=confidence("CPU007"),
        assumed=True,
        evidence=(
            *found.evidence,
            fact(job, rank, "free while it handed over work", free_for(free, rank, LAUNCHING), "ns"),
        ),
        replay=("host:outside-any-call=0",),
        actions=(
            Action(
                title="Record what the host does there",
                do=f"{RECORD_THE_HOST}{collector}",
                verify="The next capture names the calls or the cause.",
                risk="Stacks slow the host: take two steps only.",
                source=RECORD_THE_HOST_SOURCE,
            ),
        ),
    )
