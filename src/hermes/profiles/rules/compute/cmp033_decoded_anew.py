"""A sequence is computed anew for each element that it grows by.

## What it detects

Products of a matrix with inputs of 8 sizes or more that grow by the same step, with equal calls of each and all other
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

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import CalledAgain
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import new_parts, of_operators, operators
from hermes.profiles.rules._host import on
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.1, unit="of window", source="docs/evidence/noise.md")


@rule("CMP033", state="stable", fault=Fault.DECODED_ANEW, cases=())
def decoded_anew(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], again: Rows[CalledAgain]
) -> Iterator[Loss]:
    """At most one finding."""
    new = new_parts(ops)
    if not new:
        return

    def saved(row: OperatorCost) -> float:
        return row.ns * (1 - new[id(row)]) if id(row) in new else 0.0

    found = operators(job, ops, computes, "elements that were computed before", LIMIT, saved)
    if found is None:
        return
    finding = of_operators(
        job, ops, found, saved,
        title=f"Computing what was computed before, for each element of a sequence, takes {found.share:.0%} of the step"
        f"{on(job, found)}",
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: only new elements are computed"),
        confidence=confidence("CMP033"),
        actions=(_KEEP,),
    )  # fmt: skip
    loop = max(again.of(found.worst.rank), key=lambda row: (row.ns, row.line), default=None)
    yield replace(finding, lines=(loop.line,)) if loop else finding


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
