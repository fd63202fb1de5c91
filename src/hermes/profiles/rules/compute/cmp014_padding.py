"""Much of each batch is padding.

## What it detects

Integer tensors (tokens) that are padded (`constant_pad_nd`, `pad_sequence`) and then looked up in an embedding: how
many of the elements that the embedding gets were there before the padding. What is computed for the others is the
cost: their part of all compute but that of optimizers, which does not grow with the batch. It needs shapes. What a
tokenizer or a collator pads is in no profile: there it takes a capture of Hermes, which looks at some batches that a
DataLoader hands out (one value that is repeated to an end of most rows).

## Why it costs you

Every layer computes padded positions as it does the others, and a mask or the loss throws the result away.

## When it is not a problem

When padding is some percent, or keeps shapes constant for a compiler and the saved compilations are worth more.

## What to do

Put samples of like length into one batch and pad to the longest of the batch, or pack samples one after the other and
use attention over variable lengths.

## How to check

Profile again: the embedding gets hardly more elements than were there before padding, and the step is shorter by the
cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import BUCKETS_OF_LENGTH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import Padding
from hermes.profiles.measure.tensors.padding import by_rank, wasted
from hermes.profiles.rules._component import Spent
from hermes.profiles.rules._compute import operators
from hermes.profiles.rules._host import bound, on
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import by_share, rule

LIMIT = Limit(value=0.20, unit="of the tokens are padding", source="case CMP-30")
FLOOR = DOUBT
WON = Limit(value=0.6, unit="of it is won at least", source="docs/evidence/host-limits.md")


@rule("CMP014", state="stable", fault=Fault.PADDING, cases=("CMP-30",))
def padding(job: Job, paddings: Rows[Padding], ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of the embedding that gets most padding."""
    padded = {rank: row for rank, row in by_rank(paddings).items() if by_share(LIMIT, wasted(row))}
    if not padded:
        return
    worst = max(padded.values(), key=lambda row: (wasted(row), -row.rank))
    share = wasted(worst)

    def lost(row: OperatorCost) -> float:
        own = [wasted(padded[rank]) if rank in padded else 0.0 for rank in row.ranks]
        # Parameters are updated once, however many tokens there were.
        return 0.0 if row.kind == "optimizer" else row.ns * sum(own) / max(1, len(own))

    found = operators(job, ops, computes, "compute of padding", FLOOR, lost)
    if found is None:
        return
    yield Loss(
        message=f"{share:.0%} of the tokens are padding, and their compute takes {found.share:.0%} of the step"
        f"{on(job, found)}",
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, found),
        confidence=confidence("CMP014"),
        evidence=(
            *found.evidence,
            Evidence(what="padding", value=round(share, 4), unit=LIMIT.unit, threshold=LIMIT.value,
                     where=f"a mean of {worst.before:.0f} tokens of a batch before, {worst.after:.0f} after"),
        ),
        actions=(
            BUCKETS_OF_LENGTH,
        ),
    )  # fmt: skip


def _gain(job: Job, found: Spent) -> Gain:
    """Smaller products win less than their part: calls stay, and batches are still padded to their longest."""
    whole = bound(job, found, "no padded position is computed")
    return replace(whole, low_ns=round(whole.low_ns * WON.value))
