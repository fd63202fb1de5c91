"""Operators compute on the host while the device is idle.

## What it detects

The rule counts idle time of the device while a thread that feeds the device runs an operator on the host. Such an
operator takes 100 us or more, and contains neither a runtime call nor a queue. The time is the mean per step, as a
share of the step. Threads without recorded runtime calls are left out.

## Why it costs you

The loop launches nothing while the host computes, and the result must be copied to the device. A device makes a tensor
of random numbers in microseconds; a host needs milliseconds.

## When it is not a problem

Host time while the device works does not count. Random numbers that must come from the host's generator have to be made
on the host.

## What to do

Create tensors on the device that uses them (`device=`). Copy the input to the device first, and transform the input
there. Do work that must stay on the host in the workers of the loader.

## How to check

In the next capture the operators launch kernels or run in workers, and idle time falls by the gain.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import COMPUTING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

_SHOWN = 3


@rule("CPU014", state="preview", fault=Fault.COMPUTING_ON_HOST, layer="cpu")
def computing_on_host(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding, of operators that compute on the host beside a device."""
    found = host_loss(job, COMPUTES, LIMIT, lambda split: event_cost(job, events, split.rank, COMPUTING))
    row = events_of(events, found.worst.rank, COMPUTING) if found else None
    if found is None or row is None:
        return
    names = [name for name, _, _ in row.names[:_SHOWN]]
    yield Loss(
        message=on_host(share=percents(found.share), on=some_of(job, found.ranks), operator=names[0]),
        ranks=found.ranks,
        blames=blamed(job, found, *map(Blame, names)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ELSEWHERE),
        confidence=confidence("CPU014"),
        evidence=(*found.evidence, *of_events(job, row)),
        replay=("host:computing=0",),
        actions=(_MOVE,),
    )


COMPUTES = sentence("cpu014.computes")
ELSEWHERE = sentence("cpu014.elsewhere")


@message("cpu014.on_host")
def on_host(*, share: Share, on: Message | None = None, operator: Name) -> None:
    """Operators run on the host though there is a device; the longest operator is named."""


_MOVE = Action(
    title=sentence("cpu014.move"),
    do=sentence("cpu014.move_do"),
    verify=sentence("cpu014.move_verify"),
    risk=sentence("cpu014.move_risk"),
    source="PyTorch performance tuning guide: create tensors directly on the target device",
)
