"""The optimizer updates parameter by parameter on a processor.

## What it detects

The rule counts the time of the optimizer's step for Adam, AdamW, Adagrad or SGD, as a share of the step. The rule is
for jobs without a device, if no fused operator of an optimizer ran.

## Why it costs you

For each parameter the plain form calls a dozen operators, and each operator reads and writes all numbers of the
parameter. The fused form reads and writes the numbers once, in one call for all parameters.

## When it is not a problem

The plain form is no problem if the optimizer takes a small part of the step. The fused form refuses sparse gradients.

## What to do

Pass `fused=True` to the optimizer. PyTorch has the fused form of these four optimizers on processors since 2.5.

## How to check

Profile again: the optimizer's step is one `aten::_fused_…` operator and takes a fraction of its former time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPTIMIZER
from hermes.model.advice_fit import Fit
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.leaf import Leaf
from hermes.model.limit import Limit
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import event_cost, events_of, has_device, host_loss, of_events
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

_SOURCE = "docs/evidence/fused-optimizers.md"
LIMIT = Limit(value=0.1, unit="of step", source=_SOURCE)
SAVED = {
    "Adam": (Limit(value=0.55, unit="of Adam's time is saved at least", source=_SOURCE), 0.92),
    "AdamW": (Limit(value=0.55, unit="of AdamW's time is saved at least", source=_SOURCE), 0.92),
    "Adagrad": (Limit(value=0.3, unit="of Adagrad's time is saved at least", source=_SOURCE), 0.75),
    "SGD": (Limit(value=0.2, unit="of SGD's time is saved at least", source=_SOURCE), 0.6),
}
"""For each optimizer with a fused form for processors, the share of its time that the fused form saves."""
_STEP = re.compile(r"^Optimizer\.step#(\w+)\.step$")
_OPTIMIZERS = frozenset({Leaf.OPTIMIZER})


@rule("CPU011", state="stable", fault=Fault.UNFUSED_OPTIMIZER, cases=("CPU-15",))
def optimizer_of_a_processor(job: Job, events: Rows[HostEvents], ops: Rows[OperatorCost]) -> Iterator[Loss]:
    """At most one finding, of optimizers without their fused form on a processor."""
    found = host_loss(job, STEPS, LIMIT, lambda split: _cost(job, events, ops, split.rank))
    row = events_of(events, found.worst.rank, OPTIMIZER) if found else None
    if found is None or row is None:
        return
    name = _name(row)
    least, most = SAVED[name]
    yield Loss(
        message=one_by_one(optimizer=name, share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=(Blame(f"Optimizer.step#{name}.step"),),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least.value),
            high_ns=round(found.cost_ns * most),
            method=saves(least=percents(least.value), most=percents(most), optimizer=name),
        ),
        confidence=confidence("CPU011"),
        evidence=(*found.evidence, *of_events(job, row)),
        actions=(_fused(name),),
    )


def _cost(job: Job, events: Rows[HostEvents], ops: Rows[OperatorCost], rank: int) -> int | None:
    """The optimizer's time a step on a rank without a device; work of its closure does not count."""
    row = events_of(events, rank, OPTIMIZER)
    if row is None or has_device(job, rank) or not _name(row):
        return None
    if any("_fused_" in one.operator for one in ops if rank in one.ranks):
        return None
    cost, room = event_cost(job, events, rank, OPTIMIZER), job.room_ns(rank, _OPTIMIZERS)
    return cost if cost is None or room is None else min(cost, room)


def _name(row: HostEvents) -> str:
    """The class of the optimizer that takes most time, if it has a fused form; else empty."""
    step = _STEP.match(row.names[0][0]) if row.names else None
    return step[1] if step and step[1] in SAVED else ""


def _fused(name: str) -> Action:
    return Action(
        title=fuse(optimizer=name),
        do=fuse_do(optimizer=name),
        verify=fuse_verify(operator=f"aten::_fused_{name.lower()}_"),
        risk=FUSE_RISK,
        source="PyTorch documentation of torch.optim",
        fit=Fit(frameworks=("pytorch",), phase="training"),
        cases=("CPU-15",),
    )


STEPS = sentence("cpu011.steps")
FUSE_RISK = sentence("cpu011.fuse_risk")


@message("cpu011.one_by_one")
def one_by_one(*, optimizer: Name, share: Share, on: Message | None = None) -> None:
    """An optimizer updates its parameters one by one."""


@message("cpu011.saves")
def saves(*, least: Share, most: Share, optimizer: Name) -> None:
    """The saving of the optimizer's fused form."""


@message("cpu011.fuse")
def fuse(*, optimizer: Name) -> None:
    """What to do about an optimizer without its fused form."""


@message("cpu011.fuse_do")
def fuse_do(*, optimizer: Name) -> None:
    """How to use the optimizer's fused form."""


@message("cpu011.fuse_verify")
def fuse_verify(*, operator: Name) -> None:
    """How to check that the fused form is used."""
