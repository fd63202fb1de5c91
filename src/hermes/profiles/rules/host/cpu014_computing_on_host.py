"""Operators that compute on the host leave the device free.

## What it detects

Time in which the device has nothing to do while a thread that feeds it is in an operator that computes on the host
itself: it takes 100 us and more, and neither a call of the runtime nor a queue is in it. The mean of a step, as a share
of it. Threads whose calls of the runtime were not recorded are left out.

## Why it costs you

The loop hands nothing over meanwhile, and what was computed must be copied to the device. The device makes a tensor of
random numbers in microseconds that the host needs milliseconds for.

## When it is not a problem

When the device works meanwhile: then it is not counted. When the numbers must be those of the host's generator.

## What to do

Make tensors where they are used (`device=`), and move the input to the device before it is changed there; what must
stay on the host belongs into the workers of the loader.

## How to check

The operators have launches in the next capture, or run in workers, and free time falls by the gain.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import COMPUTING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events, on
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule

_SHOWN = 3


@rule("CPU014", state="preview", fault=Fault.COMPUTING_ON_HOST)
def computing_on_host(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding."""
    found = host_loss(
        job, "free while the host computes", LIMIT, lambda split: event_cost(job, events, split.rank, COMPUTING)
    )
    row = events_of(events, found.worst.rank, COMPUTING) if found else None
    if found is None or row is None:
        return
    names = [name for name, _, _ in row.names[:_SHOWN]]
    yield Loss(
        message=f"Operators that compute on the host leave the device free for {found.share:.0%} of the step"
        f"{on(job, found)}: {names[0]}",
        ranks=found.ranks,
        blames=blamed(job, found, *map(Blame, names)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "the device computes them, or workers do"),
        confidence=confidence("CPU014"),
        evidence=(*found.evidence, *of_events(job, row)),
        replay=("host:computing=0",),
        actions=(_MOVE,),
    )


_MOVE = Action(
    title="Make and change tensors on the device",
    do="Give the device where a tensor is made (`device=x.device`), and copy the input to the device before it is "
    "changed; what must stay on the host belongs into the dataset, with workers.",
    verify="These operators have launches in the next capture, and free time falls.",
    risk="The random numbers of a device are others than those of the host.",
    source="PyTorch performance tuning guide: create tensors directly on the target device",
)
