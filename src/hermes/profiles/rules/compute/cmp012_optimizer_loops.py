"""The optimizer passes over all parameters once for each of its operations.

## What it detects

The rule counts the time of multi-tensor (foreach) operations of optimizers per step, against the window and against the
time of all kernels. Fused optimizers, gradient norms and scalers do not count.

## Why it costs you

Each foreach operation reads and writes all parameters, gradients and states once. A fused optimizer does all of its
operations in one pass.

## When it is not a problem

Foreach operations are no problem if the optimizer is a small part of the step. Without a fused form of the optimizer in
the framework, you cannot avoid foreach operations.

## What to do

Use the fused form: `fused=True` of PyTorch's optimizers, or torch_npu's NpuFused optimizers.

## How to check

Profile the same step again: the foreach operations are gone, and the optimizer's time is about half.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TORCH_TRAINS, fused_optimizer
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import faster, longest, named, of_device, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of the time of all kernels", source="priority `high` of msprof-analyze")
FLOOR = NOISE
LEFT = Limit(
    value=0.50,
    unit="of the time likely remains: Adam reads and writes 18 tensors in foreach form, 7 when fused",
    source="torch/optim/adam.py, tensors that _multi_tensor_adam touches",
)
_OTHER = ("norm", "nonfinite", "non_finite", "copy", "zero")


@rule("CMP012", state="stable", fault=Fault.UNFUSED_OPTIMIZER, cases=("CPU-15",))
def optimizer_loops(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of optimizers that update one parameter after the other."""
    every = sum(row.ns for row in ops)
    if sum(map(_foreach, ops)) <= LIMIT.value * every:
        return
    found = operators(job, ops, computes, COST, FLOOR, _foreach)
    if found is None:
        return
    worst = longest(ops, _foreach)
    roots = any("sqrt" in row.operator.lower() or "addcdiv" in row.operator.lower() for row in worst)
    name = "AdamW" if roots else "SGD"
    yield Loss(
        message=separate_passes(share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=round(found.cost_ns * (1 - LEFT.value)), method=at_most(when=HALF)),
        confidence=confidence("CMP012"),
        evidence=(*found.evidence, *shown(worst, _foreach)),
        replay=faster(ops, lambda row: _foreach(row) * (1 - LEFT.value)),
        actions=(fused_optimizer(name) if of_device(job, found.ranks).fused else _fused(name),),
    )


def _foreach(row: OperatorCost) -> float:
    name = row.operator.lower()
    return float(row.ns) if "foreach" in name and not any(word in name for word in _OTHER) else 0.0


def _fused(name: str) -> Action:
    return Action(
        title=use_fused(name=name),
        do=use_fused_do(name=name),
        verify=USE_FUSED_VERIFY,
        risk=USE_FUSED_RISK,
        source="PyTorch documentation of torch.optim",
        fit=TORCH_TRAINS,
        cases=("CPU-15",),
    )


COST = sentence("cmp012.cost")
HALF = sentence("cmp012.half")
USE_FUSED_VERIFY = sentence("cmp012.use_fused_verify")
USE_FUSED_RISK = sentence("cmp012.use_fused_risk")


@message("cmp012.separate_passes")
def separate_passes(*, share: Share) -> None:
    """The optimizer passes over each parameter separately."""


@message("cmp012.use_fused")
def use_fused(*, name: Name) -> None:
    """To use the fused form of an optimizer."""


@message("cmp012.use_fused_do")
def use_fused_do(*, name: Name) -> None:
    """How to use the fused form of an optimizer."""
