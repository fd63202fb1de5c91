"""The backward pass computes gradients that no optimizer uses.

## What it detects

Nodes of the backward pass that lead to nothing but gradients of parameters that no optimizer has: a frozen teacher, a
feature extractor or a moving average of the network, run with a graph. Also nodes that compute such a gradient and may
lead to others that are used; of these about half is for nothing where the network stands between trained ones. And the
same of gradients that are dropped before an optimizer uses them: of a network that made what another learns from, when
it learns later by itself and begins anew. Together more than a twentieth of the typical step: of its kernels' time, or
of the host's on a job without a device, where keeping activations adds about a third.

A gradient is told by its shape, which no operator inside an optimizer's step has. It is dropped where an optimizer
that has no such shape steps before the next gradient of that shape, and that is not added to it. So a network whose
parameters have the shapes of the trained one is not told, and one that shares some of them is told in part. Nothing is
said where a step has no optimizer (gradients are still gathered), where shapes were not recorded, where optimizers work
on flat or sharded parameters, or where each rank updates some of them.

## Why it costs you

The backward pass of a network takes about twice as long as its forward pass. Besides, the graph is recorded, and all
activations of the forward pass are kept until the backward pass has used them.

## When it is not a problem

When the program reads these gradients itself: to attack an input, to weigh parameters, or to update some by hand.

## What to do

Detach what one network made before another learns from it. Run the network under torch.no_grad() where nothing before
it is trained. Where something before it is, set requires_grad_(False) on its parameters: its activations still get
gradients, its weights none.

## How to check

Profile the same step again: the gradients are gone, the backward pass and peak memory are smaller, and the loss is the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.analyze.host_measures import BackwardPart, UnusedGradients
from hermes.analyze.measures import StepSplit
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._component import Loss, loss
from hermes.diagnose.rules._host import blamed, fact, has_device, on, step_ns

LIMIT = Threshold(value=0.05, unit="of step", source="docs/evidence/cmp017.md")
LEAST = Threshold(value=0.4, unit="of nodes on the way to others is won", source="docs/evidence/cmp017.md")
MOST = Threshold(value=0.65, unit="of such nodes is won, where gradients are dropped", source="docs/evidence/cmp017.md")
FORWARD = Threshold(value=0.35, unit="more on a processor, in the forward pass", source="docs/evidence/cmp017.md")


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    found = loss(measures, "for unused gradients", LIMIT, lambda split: _cost(measures, split), step_ns)
    row = _unused(measures, found.worst.rank) if found else None
    if found is None or row is None:
        return
    which = "are dropped before an optimizer uses them" if row.dropped else "no optimizer uses"
    yield Finding(
        code="CMP017",
        layer="compute",
        cause="unused gradients",
        title=f"Gradients that {which} take {found.share:.0%} of the step{on(measures, found)}",
        ranks=found.ranks,
        blames=blamed(measures, found, *(f"gradients of {shape}" for shape, _ in row.shapes)),
        cost_ns=found.cost_ns,
        calls=float(row.whole.calls + row.partly.calls),
        share=found.share,
        gain=_gain(measures, found, row),
        confidence=round(0.7 * measures.certainty, 2),
        evidence=(*found.evidence, *_facts(measures, row)),
        actions=_actions(row),
    )


def _actions(row: UnusedGradients) -> tuple[Action, ...]:
    if not row.dropped:
        return _NO_GRAPH, _FREEZE
    return (_DETACH, _FREEZE) if row.whole.host_ns > row.partly.host_ns else (_FREEZE,)


_NO_GRAPH = Action(
    title="Run the network that is not trained without a graph",
    do="with torch.no_grad(): wanted = teacher(x). Where nothing before the network is trained: teachers, feature "
    "extractors, moving averages, evaluation.",
    verify="The gradients of its parameters are None; the backward pass and peak memory are smaller.",
    risk="Nothing before the network gets gradients through it.",
    source="PyTorch: Autograd mechanics, locally disabling gradient computation",
)
_FREEZE = Action(
    title="Freeze its parameters",
    do="teacher.requires_grad_(False), once. Where gradients must pass through: a frozen layer between trained ones, a "
    "perceptual loss, and a critic as long as the network learns that it judges.",
    verify="AccumulateGrad is no longer called for its parameters.",
    risk="Its parameters must be made trainable again before an optimizer gets them.",
    source="PyTorch: Autograd mechanics, setting requires_grad",
)
_DETACH = Action(
    title="Detach what one network made where the other learns from it",
    do="critic(painted.detach()) in place of critic(painted) while the critic learns; the network that painted then "
    "learns from critic(painted) without retain_graph.",
    verify="AccumulateGrad is called for the parameters of each network only before its own optimizer steps.",
    risk="none where these gradients are dropped: they reach no parameter.",
    source="PyTorch: DCGAN tutorial, detach() of the batch that the generator made",
)


def _unused(measures: Measures, rank: int) -> UnusedGradients | None:
    return next((row for row in measures.host.unused if row.rank == rank), None)


def _cost(measures: Measures, split: StepSplit) -> int | None:
    """All of these nodes, and what keeping activations for them costs where new memory is dear."""
    row = _unused(measures, split.rank)
    if row is None:
        return None
    if has_device(measures, split.rank):
        known = row.whole.device_ns is not None
        return _taken(measures, row, row.whole) + _taken(measures, row, row.partly) if known else None
    return min(round(row.whole.host_ns * (1 + FORWARD.value)) + row.partly.host_ns, step_ns(split))


def _taken(measures: Measures, row: UnusedGradients, part: BackwardPart) -> int:
    return (part.device_ns or 0) if has_device(measures, row.rank) else part.host_ns


def _gain(measures: Measures, found: Loss, row: UnusedGradients) -> Gain:
    whole, partly = (_taken(measures, row, part) for part in (row.whole, row.partly))
    return Gain(
        low_ns=min(whole + round(partly * LEAST.value), found.cost_ns),
        # A critic's gradients of the pass that teaches the painter lie on the way to the painter's.
        high_ns=max(0, found.cost_ns - round(partly * (1 - MOST.value))) if row.dropped else found.cost_ns,
        method="what leads to these gradients alone, and some or all of what may lead to others",
    )


def _facts(measures: Measures, row: UnusedGradients) -> Iterator[Evidence]:
    yield fact(measures, row.rank, "gradients that no optimizer uses", row.unused, f"of {row.gradients}")
    if row.dropped:
        yield fact(measures, row.rank, "dropped before an optimizer uses them", row.dropped, "of these")
    for what, part in (("leads to these alone", row.whole), ("computes one, and may lead to others", row.partly)):
        if _taken(measures, row, part):
            yield fact(measures, row.rank, what, _taken(measures, row, part), "ns")
    for shape, count in row.shapes:
        yield fact(measures, row.rank, f"of shape {shape}", count, "gradients")


RULE = Rule(code="CMP017", page=__doc__ or "", find=find, cases=("CPU-49", "CPU-28", "CPU-48"))
