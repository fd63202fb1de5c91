"""The capture holds the program's first calls: code is loaded, and contexts and libraries are set up.

## What it detects

The rule counts the leaf *first call* of the tree: calls that take far longer than later calls of their name, first
launches that load a kernel, and long calls that set something up, once each. The time of the calls is per step, as a
share of the step.

## Why it costs you

First calls happen once and cost the job little. But the capture then shows the start of the job instead of its usual
steps: all shares and gains describe a step that never comes again.

## When it is not a problem

First calls are no problem if you want to see the start. A process that starts often, such as one for each request, pays
for first calls each time.

## What to do

Skip the first steps, and capture later ones.

## How to check

The next capture has no first calls, and its steps are as long as steps without a profiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.advice_conditions import OF_MINDSPORE, OF_TORCH
from hermes.knowledge.blocking_calls import allocates
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import LeafTime
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, fact, host_loss
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.evidence_messages import time_in
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

_FIRST = frozenset({Leaf.FIRST_CALL})
_NAMES = 3


@rule("ENV005", state="stable", fault=Fault.FIRST_CALLS)
def first_calls(job: Job, times: Rows[LeafTime]) -> Iterator[Loss]:
    """At most one finding, of first calls of the program."""
    found = host_loss(job, FREE_IN_FIRST, LIMIT, lambda split: job.room_ns(split.rank, _FIRST))
    if found is None:
        return
    rank = found.worst.rank
    own = sorted((row for row in times.of(rank) if row.leaf in _FIRST), key=lambda row: (-row.total_ns, row.what))
    names = tuple(dict.fromkeys(row.what for row in own if row.what))[:_NAMES]
    several = job.steps.counts.get(rank, 1) > 1
    yield Loss(
        message=first_take(
            share=percents(found.share), whole=THE_STEP if several else RECORDED, on=some_of(job, found.ranks),
            what=(sets_up if allocates(names[0]) else loads_code)(call=names[0]) if names else None,
        ),
        ranks=found.ranks,
        blames=blamed(job, found, *map(Blame, names)),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=found.cost_ns, high_ns=found.cost_ns, basis="replayed", method=OF_RECORDED),
        confidence=confidence("ENV005"),
        evidence=(
            *found.evidence,
            *(fact(job, rank, time_in(name=row.what), row.total_ns, "ns") for row in own[:_NAMES] if row.what),
        ),
        actions=_LATER,
    )  # fmt: skip


FREE_IN_FIRST = sentence("env005.free")
THE_STEP = sentence("env005.step")
RECORDED = sentence("env005.recorded")
OF_RECORDED = sentence("env005.of_recorded")


@message("env005.first")
def first_take(*, share: Share, whole: Message, on: Message | None = None, what: Message | None = None) -> None:
    """First calls of a program are long; a call may tell what they do."""


@message("env005.sets_up")
def sets_up(*, call: Name) -> None:
    """Why an allocation is long."""


@message("env005.loads_code")
def loads_code(*, call: Name) -> None:
    """Why a launch is long."""


def _later(do: Message, fit: Fit) -> Action:
    return Action(
        title=LATER,
        do=do,
        verify=LATER_VERIFY,
        risk=NO_RISK,
        source="PyTorch documentation of torch.profiler.schedule",
        fit=fit,
    )


LATER = sentence("env005.later")
LATER_VERIFY = sentence("env005.later_verify")
_LATER = (
    _later(sentence("env005.later_torch"), OF_TORCH),
    _later(sentence("env005.later_mindspore"), OF_MINDSPORE),
)
