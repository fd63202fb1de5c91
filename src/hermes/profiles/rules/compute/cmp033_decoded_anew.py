"""A sequence is computed anew for each element that it grows by.

## What it detects

Products of a matrix with inputs of 16 sizes or more that grow by the same step, with equal calls of each and all other
sizes the same: what was computed for the first elements of a sequence is computed again for each that comes behind
them. The cost is what all operators on such inputs take beyond the part of the new elements, per step. Products of
batches, which the attention over what is kept has, do not count. It needs shapes.

## Why it costs you

Of n elements the first is computed n times: the work grows by the square of the length, where each needs to be computed
once.

## When it is not a problem

Where what came before changes with each element, as with attention in both directions. When batches happen to have just
these lengths, each as often.

## What to do

Keep keys and values of what was computed, and give the model the new element alone.

## How to check

Profile again: inputs of the products have one size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from hermes.knowledge.cost.tensors import shapes_of
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.finding import Action, Cause, Finding, Gain
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._host import on
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.1, unit="of window", source="docs/evidence/noise.md")
_SIZES = 16
"""So many sizes in even steps, each as often, are no batches of lengths that vary."""
_PRODUCTS = ("aten::addmm", "aten::mm", "aten::linear")

Key = tuple[object, ...]


@rule("CMP033", state="stable", cause=Cause.DECODED_ANEW, cases=())
def decoded_anew(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Finding]:
    """At most one finding."""
    new = _new(ops)
    if not new:
        return

    def saved(row: OperatorCost) -> float:
        return row.ns * (1 - new[id(row)]) if id(row) in new else 0.0

    found = operators(job, ops, computes, "elements that were computed before", LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    yield Finding(
        title=f"Computing what was computed before, for each element of a sequence, takes {found.share:.0%} of the step"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: only new elements are computed"),
        confidence=round(0.7 * job.certainty, 2),
        evidence=(*found.evidence, *shown(worst, saved)),
        replay=faster(ops, saved),
        actions=(_KEEP,),
    )


def _new(ops: Rows[OperatorCost]) -> Mapping[int, float]:
    """By row the part of its input that is new, of rows whose inputs grow with those of some product."""
    groups: dict[Key, dict[int, list[OperatorCost]]] = {}
    for row in ops:
        if row.kind == "batched matmul":
            continue
        sizes = [shape for shape in shapes_of(row.shapes) if shape]
        for at, shape in enumerate(sizes):
            # What grows is the number of rows: the first axis of a matrix, the last but one of others.
            axis = max(len(shape) - 2, 0)
            rest = tuple((*one[:axis], *one[axis + 1 :]) if place == at else one for place, one in enumerate(sizes))
            if len(shape) > 1:
                key = (row.ranks, row.operator, at, rest, row.calls)
                groups.setdefault(key, {}).setdefault(shape[axis], []).append(row)
    grown: dict[int, float] = {}
    for (_, operator, *_), rows in groups.items():
        lengths = sorted(rows)
        steps = {after - before for before, after in pairwise(lengths)}
        if operator in _PRODUCTS and len(lengths) >= _SIZES and len(steps) == 1:
            (each,) = steps
            grown.update({id(row): each / length for length, own in rows.items() for row in own})
    return grown


_KEEP = Action(
    title="Keep what was computed, and compute the new element alone",
    do="Keep the keys and values of each layer and append to them: past_key_values and use_cache=True of transformers; "
    "in a model of your own, a cache of each attention that the new query attends to. Of a recurrent layer keep its "
    "state.",
    verify="Inputs of the products have one row for each sequence.",
    risk="Memory for keys and values; positions must count on from what is kept.",
    source="Transformers documentation: caching",
    whole=True,
)
