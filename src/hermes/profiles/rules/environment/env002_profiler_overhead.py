"""The profiler itself slows the host.

## What it detects

A capture with Python stacks or modules recorded, in which the host keeps the device waiting while it
runs operators and Python. How much of that the profiler adds is not known from one capture: the cost is the most that
it can be.

## Why it costs you

Stacks and memory recording run for every operator, on the thread that launches. A job that leaves such a profiler on is
slower than it need be, and a capture taken with it overstates every loss of the host.

## When it is not a problem

For a capture of a few steps of a job that runs without: then only the figures of the host are too high.

## What to do

Capture once more at a low level, without stacks and memory, and act on that. Give the profiler a schedule, so that it
ends.

## How to check

The step of the lean capture is as long as one that is timed without any profiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import LEAN_CAPTURE
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Gain, Loss
from hermes.model.host_measures import SettingValues, StepHost
from hermes.model.job import Job, Rows
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._dispatch import dispatch_cost
from hermes.profiles.rules._host import blamed, fact, host_loss, on, setting, window_ns
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule

_DEAR = ("with_stack", "with_modules", "profile_memory")
_ON = frozenset({"1", "true", "True"})


@rule("ENV002", state="preview", fault=Fault.EXPENSIVE_PROFILING, cases=("ENV-04",))
def profiler_overhead(
    job: Job, free: Rows[StepFree], host_steps: Rows[StepHost], settings: Rows[SettingValues]
) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job,
        "free while the host hands over work",
        LIMIT,
        lambda split: dispatch_cost(free, host_steps, split.rank) if _dear(settings, split.rank) else None,
        window_ns,
    )
    if found is None:
        return
    rank = found.worst.rank
    options = _dear(settings, rank)
    yield Loss(
        message=f"The profiler records {', '.join(options)}, and may be part of the {found.share:.0%} of the step in "
        f"which the host hands over work too slowly{on(job, found)}",
        ranks=found.ranks,
        blames=blamed(job, found, *(Blame(option, "setting") for option in options)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=0, method="not known: a capture without tells how much of it the profiler adds"),
        confidence=confidence("ENV002"),
        assumed=True,
        evidence=(*found.evidence, *(fact(job, rank, f"{option} is on", 1.0, "setting") for option in options)),
        actions=(LEAN_CAPTURE,),
    )


def _dear(settings: Rows[SettingValues], rank: int) -> tuple[str, ...]:
    """What is recorded that costs time in every operator; nothing without Python frames, which cost most."""
    found = tuple(name for name in _DEAR if setting(settings, rank, name) in _ON)
    return found if set(found) - {"profile_memory"} else ()
