"""Several backward passes run over the same graph.

## What it detects

Nodes of autograd's graph that run backward more than once: each has a number of its own, and a second run with that
number is the same work on another gradient. The cost is what their runs beyond one take, per step. Of jobs that compute
on the processor; it needs the numbers of autograd (`sequence`), which PyTorch's profiler records.

## Why it costs you

The gradient of a sum is the sum of the gradients: one pass over what the losses share gives what several passes add up.

## When it is not a problem

When the gradients of each loss are needed by themselves, as to weigh them, to project them, or for the two networks of
an adversarial training.

## What to do

Add the losses, and run backward once.

## How to check

Profile again: no node runs backward twice, and `retain_graph=True` is gone.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import BackwardAgain
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import mean_steps
from hermes.profiles.rules._host import fact, has_device, won
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("HOT006", state="preview", fault=Fault.BACKWARD_AGAIN, direct=True)
def backward_again(job: Job, again: Rows[BackwardAgain]) -> Iterator[Loss]:
    """At most one finding."""
    steps = mean_steps(job)
    found = [
        row
        for row in again
        if steps.get(row.rank) and not has_device(job, row.rank) and by_share(LIMIT, row.ns / steps[row.rank])
    ]
    row = max(found, key=lambda one: (one.ns, -one.rank), default=None)
    if row is None:
        return
    cost = min(row.ns, steps[row.rank])
    share = cost / steps[row.rank]
    yield Loss(
        message=f"The backward pass runs {row.times:.0f} times over the same graph: {share:.0%} of the step",
        ranks=tuple(sorted(one.rank for one in found)),
        blames=(Blame(row.line, "line"),) if row.line else (),
        cost_ns=cost,
        share=share,
        gain=won(job, row.rank, cost, "one pass over what the losses share"),
        confidence=confidence("HOT006"),
        evidence=(
            fact(job, row.rank, "runs of nodes beyond the first", share, "of step", LIMIT.value),
            fact(job, row.rank, "runs of each of them", row.times, "runs"),
        ),
        lines=(row.line,) if row.line else (),
        actions=(_SUM,),
    )


_SUM = Action(
    title="Add the losses, and run backward once",
    do="loss = sum of the weighted losses, then one loss.backward() without retain_graph. Where each gradient is "
    "needed by itself, take it of the last shared tensor alone, and run the shared part backward once with their sum.",
    verify="No node of autograd runs twice in a step.",
    risk="Sums in another order: last digits differ.",
    source="PyTorch documentation: autograd mechanics",
    whole=True,
)
