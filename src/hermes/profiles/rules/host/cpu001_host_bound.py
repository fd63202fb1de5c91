"""The device is free: it waits for the host.

## What it detects

The part of a step's window in which the device neither computes, communicates nor copies, as a share of the window, on
the step of median length of each rank.

## Why it costs you

Free time is time in which the host has not yet handed over the next task: Python, operator dispatch, compilation,
synchronising calls, data loading, garbage collection, or a busy processor.

## When it is not a problem

When the profiler itself slows the host: Python stacks and memory recording can multiply host time. Compare with a
capture at a lower level before acting on a small share.

## What to do

See which other rule of the host or the input says more (the free time that it explains is a part of this), and remove
the largest part first.

## How to check

Profile again: free time per step must fall, and the window with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job
from hermes.profiles.rules._component import loss
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule


@rule("CPU001", state="stable", fault=Fault.STARVED_DEVICE, cases=("CPU-11", "CPU-26", "CPU-29", "ENV-01", "ENV-13"))
def host_bound(job: Job) -> Iterator[Loss]:
    """One finding for all ranks that are beyond the limit."""
    found = loss(job, "free device time", LIMIT, lambda split: split.free_ns)
    if found is None:
        return
    yield Loss(
        message=f"The device has nothing to do for {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: the host is always ahead of the device"),
        confidence=confidence("CPU001"),
        evidence=found.evidence,
        actions=(
            Action(
                title="Look at the host calls of this step",
                do="Start with the longest rows of the tables of host calls and operators; capture once more without "
                "with_stack and profile_memory to see how much of the gap the profiler itself makes.",
                verify="Free time per step falls.",
                risk="none",
                source="definition of free time in docs/concepts.md",
            ),
        ),
    )
