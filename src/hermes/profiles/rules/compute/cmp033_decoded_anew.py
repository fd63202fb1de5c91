"""The whole sequence is computed again for each new element.

## What it detects

The rule finds products of one matrix with inputs of 8 or more sizes that grow by the same amount. All other sizes are
the same, and each size has as many calls. Growing inputs mean that the first elements of a sequence are computed again
for each later element. The cost is the time of all operators on such inputs, less the share of the new elements, per
step. Batched products, as in attention over cached keys, do not count. The rule needs shapes.

## Why it costs you

With n elements, the first element is computed n times. The work grows with the square of the length, although each
element needs to be computed only once.

## When it is not a problem

Recomputing is needed if earlier elements change with each new one, as with attention in both directions. The rule is
wrong if batches happen to have exactly these lengths, each equally often.

## What to do

Cache the keys and values of earlier elements, and give the model only the new element.

## How to check

Profile again: inputs of the products have one size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.model.code_measures import CalledAgain
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import new_parts, of_operators, operators
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.1, unit="of window", source="docs/evidence/noise.md")


@rule("CMP033", state="stable", fault=Fault.DECODED_ANEW, cases=())
def decoded_anew(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], again: Rows[CalledAgain]
) -> Iterator[Loss]:
    """At most one finding, of sequences that are decoded anew for each token."""
    new = new_parts(ops)
    if not new:
        return

    def saved(row: OperatorCost) -> float:
        return row.ns * (1 - new[id(row)]) if id(row) in new else 0.0

    found = operators(job, ops, computes, COST, LIMIT, saved)
    if found is None:
        return
    finding = of_operators(
        job, ops, found, saved,
        title=before_each(share=percents(found.share), on=some_of(job, found.ranks)),
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=ONLY_NEW)),
        confidence=confidence("CMP033"),
        actions=(_KEEP,),
    )  # fmt: skip
    loop = max(again.of(found.worst.rank), key=lambda row: (row.ns, row.line), default=None)
    yield replace(finding, lines=(loop.line,)) if loop else finding


_KEEP = Action(
    title=sentence("cmp033.keep"),
    do=sentence("cmp033.keep_do"),
    verify=sentence("cmp033.keep_verify"),
    risk=sentence("cmp033.keep_risk"),
    source="Transformers documentation: caching",
    whole=True,
)


COST = sentence("cmp033.cost")
ONLY_NEW = sentence("cmp033.only_new")


@message("cmp033.before_each")
def before_each(*, share: Share, on: Message | None = None) -> None:
    """All earlier tokens are computed again before each new token."""
