"""Python sequences are turned into tensors in the training loop.

## What it detects

The training thread makes tensors or arrays from Python objects (`torch.tensor`, `torch.as_tensor`, `numpy.array`),
outside of the loader. The objects are lists, deques or other sequences. No profiler records whether the elements are
numbers or arrays. Two further times count with the calls that make tensors. The first is the comprehension that
makes the objects, if it calls no operators; only Python up to 3.11 records the comprehension. The second is the time to
unpickle the data of workers. The rule counts the idle time of the device during these times, per step. On a job without
a device, the rule counts the host's own time.

## Why it costs you

Each number of a list is an object of its own. Converting a list takes a hundred times as long as copying the same
numbers from an array. `torch.tensor` also takes a sequence of arrays apart, number by number. Between processes, each
number is also pickled, sent and created again.

## When it is not a problem

Making tensors of a few scalars a step is no problem.

## What to do

If the elements are arrays, stack them first: `torch.from_numpy(numpy.stack(rows))`. Make tensors where you read the
numbers: in the dataset or in the worker's collate function. Keep samples as arrays.

## How to check

The calls that make tensors are gone from the next profile, and the step is shorter by their time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.advice_conditions import OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import CONVERSION, UNPICKLING
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._host import blamed, bound, event_cost, events_of, host_loss, of_events
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import effect, some_of

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("IO007", state="stable", fault=Fault.LISTS_TO_TENSORS, cases=("IO-13", "CPU-20"))
def lists_to_tensors(job: Job, events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding, of tensors made from Python sequences."""
    alone = host_loss(job, MAKING, LIMIT, lambda split: _converted(job, events, split.rank))
    if alone is None:
        return

    def cost(rank: int) -> int | None:
        made = _converted(job, events, rank)
        return None if made is None else made + (event_cost(job, events, rank, UNPICKLING) or 0)

    found = host_loss(job, AND_UNPICKLING, LIMIT, lambda split: cost(split.rank))
    row = events_of(events, found.worst.rank, CONVERSION) if found else None
    if found is None or row is None:
        return
    yield Loss(
        message=of_sequences(effect=effect(job, found), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=blamed(job, found),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, ARRIVE),
        confidence=confidence("IO007"),
        evidence=(*alone.evidence, *of_events(job, row)),
        actions=(_HAND_OVER, _MASKS),
    )


def _converted(job: Job, events: Rows[HostEvents], rank: int) -> int | None:
    return event_cost(job, events, rank, CONVERSION)


MAKING = sentence("io007.making")
AND_UNPICKLING = sentence("io007.and_unpickling")
ARRIVE = sentence("io007.arrive")


@message("io007.of_sequences")
def of_sequences(*, effect: Message, on: Message | None = None) -> None:
    """The loop makes tensors from sequences, whose elements are not known."""


_HAND_OVER = Action(
    title=sentence("io007.hand_over"),
    do=sentence("io007.hand_over_do"),
    verify=sentence("io007.hand_over_verify"),
    risk=NO_RISK,
    source="PyTorch documentation: torch.as_tensor and torch.from_numpy; multiprocessing: tensors are "
    "passed in shared memory, other objects are pickled",
    fit=OF_TORCH,
    cases=("IO-13",),
)
_MASKS = Action(
    title=sentence("io007.masks"),
    do=sentence("io007.masks_do"),
    verify=sentence("io007.masks_verify"),
    risk=NO_RISK,
    source="PyTorch performance tuning guide: create tensors directly on the target device",
    fit=OF_TORCH,
    cases=("CPU-20",),
)
