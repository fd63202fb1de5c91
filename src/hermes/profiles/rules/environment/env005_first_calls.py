"""The capture holds the program's first calls: code is loaded, and contexts and libraries are set up.

## What it detects

The rule counts launches of a millisecond or more, and allocations of 50 ms or more, while the device is idle. Most
steps must have no such call. The time of the calls is per step, as a share of the step.

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

from collections.abc import Iterator, Mapping
from functools import partial

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import NO_RISK
from hermes.knowledge.advice_conditions import OF_MINDSPORE, OF_TORCH
from hermes.knowledge.confidence import confidence
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import FirstCalls
from hermes.model.job import Job, Rows
from hermes.model.step_measures import StepSplit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import blamed, fact, host_loss
from hermes.profiles.rules._limits import FREE as LIMIT
from hermes.profiles.rules.evidence_messages import LONGEST_CALL
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of


@rule("ENV005", state="stable", fault=Fault.FIRST_CALLS)
def first_calls(job: Job, first: Rows[FirstCalls]) -> Iterator[Loss]:
    """A finding of long first launches, and a finding of long first allocations."""
    for allocation in (False, True):
        rows = {row.rank: row for row in first if row.allocation is allocation}
        found = host_loss(job, FREE_IN_FIRST, LIMIT, partial(_cost, rows))
        if found is None:
            continue
        row = rows[found.worst.rank]
        yield Loss(
            message=first_take(
                share=percents(found.share), whole=THE_STEP if row.steps > 1 else RECORDED,
                on=some_of(job, found.ranks), what=_what(row),
            ),
            ranks=found.ranks,
            blames=blamed(job, found, *(Blame(name) for name, _, _ in row.names)),
            cost_ns=found.cost_ns,
            share=found.share,
            gain=Gain(
                low_ns=found.cost_ns, high_ns=found.cost_ns, basis="replayed", method=OF_RECORDED
            ),
            confidence=confidence("ENV005"),
            evidence=(
                *found.evidence,
                fact(job, row.rank, LONGEST_CALL, row.longest_ns, "ns", at_ns=row.longest_at_ns),
                fact(job, row.rank, SUCH_CALLS, row.calls, "calls"),
            ),
            # Allocations are not part of the dispatch time.
            apart=allocation,
            actions=_LATER,
        )  # fmt: skip


def _cost(rows: Mapping[int, FirstCalls], split: StepSplit) -> int | None:
    row = rows.get(split.rank)
    return row.free_ns // row.steps if row else None


def _what(row: FirstCalls) -> Message:
    said = sets_up if row.allocation else loads_code
    return said(call=row.names[0][0])


FREE_IN_FIRST = sentence("env005.free")
THE_STEP = sentence("env005.step")
RECORDED = sentence("env005.recorded")
OF_RECORDED = sentence("env005.of_recorded")
SUCH_CALLS = sentence("env005.such_calls")


@message("env005.first")
def first_take(*, share: Share, whole: Message, on: Message | None = None, what: Message) -> None:
    """First calls of a program are long."""


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
