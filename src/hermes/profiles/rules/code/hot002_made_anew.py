"""A function makes the same tensors anew in each step.

## What it detects

A function of the program, outside of modules and data loaders, whose operators start from constants alone (zeros,
arange, tensors of lists) and need no gradient: as far as the capture tells, it gives the same each time. Per step, mean
over the capture, as a share of the step. Python frames or stacks tell it.

## Why it costs you

Masks, tables and grids are built again that never change.

## When it is not a problem

When arguments differ from call to call.

## What to do

Make it once and keep it.

## How to check

The line no longer stands among those where the time goes, and the step is shorter by its cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import CodeLine
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import beside_training, evidence_of, gain_of, growing, mean_steps, outside_loaders
from hermes.profiles.rules._host import has_device
from hermes.profiles.rules.rule import by_share, rule

ANEW = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_MOST = 2


@rule("HOT002", state="preview", fault=Fault.MADE_ANEW)
def made_anew(job: Job, lines: Rows[CodeLine]) -> Iterator[Loss]:
    """The functions that are beyond their limit, at most two."""
    steps = mean_steps(job)
    worst: dict[str, tuple[int, float, CodeLine]] = {}
    for row in outside_loaders(lines):
        step_ns = steps.get(row.rank)
        if not step_ns or not (row.made and beside_training(row)):
            continue
        cost = row.device_ns if has_device(job, row.rank) else row.own_ns
        share = cost / step_ns
        if by_share(ANEW, share) and worst.get(row.said, (0,))[0] < cost:
            worst[row.said] = (cost, share, row)
    for cost, share, row in sorted(worst.values(), key=lambda one: (-one[0], one[2].said))[:_MOST]:
        yield Loss(
            message=f"{row.said} makes the same tensors anew: {share:.0%} of the step{growing(row)}",
            ranks=tuple(sorted({one.rank for one in lines if one.said == row.said})),
            blames=(Blame(row.said, "line"),),
            cost_ns=cost,
            share=min(share, 1.0),
            gain=gain_of(job, row.rank, cost, "its operators, from half of them to all"),
            confidence=confidence("HOT002"),
            evidence=evidence_of(job, row, share, ANEW.value),
            lines=(row.said,),
            actions=(replace(_ONCE, title=f"Make what {row.said} returns once, before the loop, and keep it"),),
        )


_ONCE = Action(
    title="Make it once, before the loop, and keep it",
    do="If its arguments are the same in each step, call it once and keep what it returns: "
    "self.register_buffer(name, value) in a module, functools.lru_cache on a function.",
    verify="The function is no longer called in a step.",
    risk="What depends on the step's data must stay.",
    source="PyTorch documentation of torch.nn.Module.register_buffer",
)
