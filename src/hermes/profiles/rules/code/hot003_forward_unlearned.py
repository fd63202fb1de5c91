"""A trained module runs forward in each step, and nothing learns from that.

## What it detects

Outermost forward passes of a module that no backward pass follows, where other passes of the same module in the capture
train it, in each of two steps or more. They count where the function of the program around them reads batches of its
own, as an evaluation does: then all of that function. Or where inputs of the same shapes are trained, at least as often
not as they are: then as long as the function takes in which nothing is trained. Passes that run again in the backward
pass are recomputation, MEM005's. Python frames tell it. Steps with several optimizers are left out of the second.

## Why it costs you

The training waits for work that changes no weight. What a second pass over the same batch finds, the first has found.

## When it is not a problem

When the passes make what is trained on, as targets and rollouts do. When the capture holds a rare evaluation: it then
stands in few of its steps, and is silent.

## What to do

Evaluate each so many hundred steps, or on a part of the data. Take predictions for statistics from the outputs that the
loss was computed of, with detach.

## How to check

Profile again: the function is gone from most steps, and the step is shorter by its cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.host_work import OPTIMIZER
from hermes.model.code_measures import Unlearned
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import mean_steps
from hermes.profiles.rules._host import events_of, fact, won
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")
_STEPS = 2


@rule("HOT003", state="stable", fault=Fault.FORWARD_UNLEARNED)
def forward_unlearned(job: Job, passes: Rows[Unlearned], events: Rows[HostEvents]) -> Iterator[Loss]:
    """At most one finding, of the function that takes most."""
    steps = mean_steps(job)
    found = [
        row
        for row in passes
        if steps.get(row.rank)
        and by_share(LIMIT, row.ns / steps[row.rank])
        and row.steps_hit == row.steps >= _STEPS
        and (row.loads or _is_second(events, row))
    ]
    row = max(found, key=lambda one: (one.ns, -one.rank, one.line), default=None)
    if row is None:
        return
    cost = min(row.ns, steps[row.rank])
    share = cost / steps[row.rank]
    what = "evaluates in each step" if row.loads else f"runs {row.module} forward once more"
    yield Loss(
        message=f"{row.line} {what}, and nothing learns from it: {share:.0%} of the step",
        ranks=tuple(sorted({one.rank for one in found if one.line == row.line})),
        blames=(Blame(row.line, "line"),),
        cost_ns=cost,
        share=share,
        gain=won(job, row.rank, cost, "it is done rarely, or taken from the training's pass"),
        confidence=confidence("HOT003.loads" if row.loads else "HOT003"),
        evidence=(
            fact(job, row.rank, f"time of {row.line}", share, "of step", LIMIT.value),
            fact(job, row.rank, "forward passes that train nothing", row.calls, "calls a step"),
            fact(job, row.rank, "forward passes of the same module that train it", row.trained, "calls a step"),
        ),
        lines=(row.line,),
        actions=(_RARELY if row.loads else _FROM_THE_FIRST,),
    )


def _is_second(events: Rows[HostEvents], row: Unlearned) -> bool:
    """Whether it may be a second pass over what is trained; of several networks one may compute for another."""
    updates = events_of(events, row.rank, OPTIMIZER)
    alone = updates is None or (updates.calls or 0) <= max(updates.steps, 1)
    return alone and row.again and row.trained <= row.calls <= _TWICE * row.trained


_TWICE = 2
_RARELY = Action(
    title="Evaluate rarely",
    do="Call it each so many hundred steps, or once an epoch, and on a part of the data in between; check the "
    "condition that starts it: a counter of micro-batches or of steps of the optimizer is easily taken for the other.",
    verify="The function is gone from most steps.",
    risk="A model that gets worse is seen later.",
    source="the capture itself",
    whole=True,
)
_FROM_THE_FIRST = Action(
    title="Take it from the training's forward pass",
    do="If it is of the same batch: logits = model(x) once, the loss of logits, and statistics of logits.detach(). If "
    "not, do it each so many hundred steps.",
    verify="The module runs forward as often as backward.",
    risk="With dropout, or norms of a batch, outputs of training differ from those of evaluation.",
    source="the capture itself",
    whole=True,
)
