"""Gradients are computed that no optimizer uses.

## What it detects

Tensors that gradients are accumulated for, of shapes that no operator inside any step of an optimizer works on, while
others are updated. The cost is the part of the backward passes behind the last gradient that is used, per step: there
nothing is computed but what nobody needs. It needs the shapes of all that optimizers do, and two of their steps; lists
of tensors without shapes say nothing, and the rule is then silent.

## Why it costs you

The backward pass of a part of the model takes twice its forward pass, and activations are kept for it.

## When it is not a problem

When another optimizer steps so rarely that the capture holds none of its steps.

## What to do

Say which parameters are not trained, and run what holds them without gradients.

## How to check

Profile again: AccumulateGrad runs for as many tensors as the optimizer updates, and the backward pass is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.model.code_measures import CodeLine, UnusedGradients
from hermes.model.finding import Action, Blame, Cause, Finding
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import mean_steps
from hermes.profiles.rules._host import fact, won
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("HOT004", state="preview", cause=Cause.UNUSED_GRADIENTS, cases=("CPU-48",), direct=True)
def unused_gradients(job: Job, gradients: Rows[UnusedGradients], lines: Rows[CodeLine]) -> Iterator[Finding]:
    """At most one finding."""
    steps = mean_steps(job)
    found = [one for one in gradients if steps.get(one.rank) and by_share(LIMIT, one.tail_ns / steps[one.rank])]
    row = max(found, key=lambda one: (one.tail_ns, -one.rank), default=None)
    if row is None:
        return
    cost = min(row.tail_ns, steps[row.rank])
    share = cost / steps[row.rank]
    most = max(
        (one for one in lines.of(row.rank) if one.backward_ns and one.place),
        key=lambda one: (one.backward_ns, one.place),
        default=None,
    )
    yield Finding(
        title=f"Gradients of {row.unused:.0f} tensors are used by no optimizer: {share:.0%} of the step",
        ranks=tuple(sorted(one.rank for one in found)),
        blames=(Blame(most.said, "line"),) if most else (),
        cost_ns=cost,
        share=share,
        gain=won(job, row.rank, cost, "the backward pass ends at the last gradient that is used"),
        confidence=round(0.8 * job.certainty, 2),
        evidence=(
            fact(job, row.rank, "backward behind the last gradient that is used", share, "of step", LIMIT.value),
            fact(job, row.rank, "tensors whose gradients no optimizer uses", row.unused, "for each of its steps"),
            fact(job, row.rank, "tensors that are updated", row.kept, "for each of its steps"),
        ),
        lines=(most.said,) if most else (),
        actions=(_FREEZE,),
    )


_FREEZE = Action(
    title="Compute no gradients for what is not trained",
    do="Before the optimizer is made: backbone.requires_grad_(False) for the part that it does not get, and "
    "with torch.no_grad(): features = backbone(x) in the forward pass. If that part should be trained, give the "
    "optimizer its parameters.",
    verify="AccumulateGrad runs for as many tensors as the optimizer updates.",
    risk="Norms of a batch in a part that is not trained still move unless it is in eval().",
    source="PyTorch documentation: autograd mechanics, setting requires_grad",
    whole=True,
)
