"""Gradients are computed that no optimizer uses.

## What it detects

Tensors that gradients are accumulated for, while others are updated, of shapes that no operator inside any step of an
optimizer works on; or that the steps behind that backward pass do not work on, and that are set to zero before a later
one does. The cost is the part of the backward passes behind the last gradient that is used, per step: there nothing is
computed but what nobody needs. It needs the shapes of all that optimizers do, and two of their steps; where lists of
tensors have none, the rule is silent.

## Why it costs you

The backward pass of a part of the model takes twice its forward pass, and activations are kept for it.

## When it is not a problem

When another optimizer steps so rarely that the capture holds none of its steps.

## What to do

Say which parameters are not trained, and run what holds them without gradients. Where two networks learn by turns,
detach what the other one made.

## How to check

Profile again: AccumulateGrad runs for as many tensors as the optimizer updates, and the backward pass is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import CodeLine, UnusedGradients
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._code import mean_steps
from hermes.profiles.rules._host import fact, won
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.05, unit="of step", source="docs/evidence/host-limits.md")


@rule("HOT004", state="stable", fault=Fault.UNUSED_GRADIENTS, cases=("CPU-48", "CPU-28"), direct=True)
def unused_gradients(job: Job, gradients: Rows[UnusedGradients], lines: Rows[CodeLine]) -> Iterator[Loss]:
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
    how = "set to zero before an optimizer uses them" if row.dropped else "used by no optimizer"
    line = row.line or (most.said if most else "")
    yield Loss(
        message=f"Gradients of {row.unused:.0f} tensors are {how}: {share:.0%} of the step",
        ranks=tuple(sorted(one.rank for one in found)),
        blames=(Blame(line, "line"),) if line else (),
        cost_ns=cost,
        share=share,
        gain=won(job, row.rank, cost, "the backward pass ends at the last gradient that is used"),
        confidence=confidence("HOT004"),
        evidence=(
            fact(job, row.rank, "backward behind the last gradient that is used", share, "of step", LIMIT.value),
            fact(job, row.rank, "tensors whose gradients no optimizer uses", row.unused, "a step"),
            fact(job, row.rank, "tensors that are updated", row.kept, "a step"),
        ),
        lines=tuple(dict.fromkeys(one for one in (line, most.said if most else "") if one)),
        actions=(_DETACH if row.dropped else _FREEZE,),
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
_DETACH = Action(
    title="Detach what another network made",
    do="In the step of the one network: fake = generator(z).detach(), or with torch.no_grad(): before it is judged. In "
    "that of the other: discriminator.requires_grad_(False), and True behind it, for its gradients are needed on the "
    "way through only.",
    verify="AccumulateGrad runs for as many tensors as the optimizer of that pass updates.",
    risk="None where the gradients are set to zero anyway; a graph that both passes share must be made anew.",
    source="PyTorch tutorial on DCGAN: the discriminator is trained on fake.detach()",
    whole=True,
)
