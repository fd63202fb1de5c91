"""Much of each batch is padding.

## What it detects

The rule finds tokens (integer tensors) that are padded (`constant_pad_nd`, `pad_sequence`) and then looked up in an
embedding. The rule compares the number of elements before and after the padding. The cost is the compute for padded
elements: their share of all compute except optimizers, whose work does not grow with the batch. The rule needs shapes.
A profile does not show what a tokenizer or a collator pads. A capture of Hermes does: it looks at some batches of the
DataLoader for one value that fills the ends of most rows.

## Why it costs you

Every layer computes padded positions like all others, and a mask or the loss throws the results away.

## When it is not a problem

Padding of a few percent is no problem. Padding may keep shapes constant for a compiler, and save more than it costs.

## What to do

Put samples of like length into one batch and pad to the longest of the batch, or pack samples one after the other and
use attention over variable lengths.

## How to check

Profile again: padding adds hardly any elements, and the step is shorter by the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Message, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import BUCKETS_OF_LENGTH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import Padding
from hermes.profiles.measure.tensors.padding import by_rank, padding_share
from hermes.profiles.rules._compute import operators
from hermes.profiles.rules._cost_by_rank import Spent, percents
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import by_share, rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.20, unit="of the tokens are padding", source="case CMP-30")
FLOOR = DOUBT
WON = Limit(value=0.6, unit="of the padding time is won at least", source="docs/evidence/host-limits.md")


@rule("CMP014", state="stable", fault=Fault.PADDING, cases=("CMP-30",))
def padding(job: Job, paddings: Rows[Padding], ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of the embedding with the most padding."""
    padded = {rank: row for rank, row in by_rank(paddings).items() if by_share(LIMIT, padding_share(row))}
    if not padded:
        return
    worst = max(padded.values(), key=lambda row: (padding_share(row), -row.rank))
    share = padding_share(worst)

    def lost(row: OperatorCost) -> float:
        own = [padding_share(padded[rank]) if rank in padded else 0.0 for rank in row.ranks]
        # Parameters are updated once, whatever the number of tokens.
        return 0.0 if row.kind == "optimizer" else row.ns * sum(own) / max(1, len(own))

    found = operators(job, ops, computes, COST, FLOOR, lost)
    if found is None:
        return
    yield Loss(
        message=are_padding(padded=percents(share), share=percents(found.share), on=some_of(job, found.ranks)),
        ranks=found.ranks,
        blames=(),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=_gain(job, found),
        confidence=confidence("CMP014"),
        evidence=(
            *found.evidence,
            Evidence(what=PADDED, value=round(share, 4), unit=LIMIT.unit, threshold=LIMIT.value,
                     where=f"a mean of {worst.before:.0f} tokens of a batch before, {worst.after:.0f} after"),
        ),
        actions=BUCKETS_OF_LENGTH,
    )  # fmt: skip


def _gain(job: Job, found: Spent) -> Gain:
    """The gain: smaller products save less than their share, as calls stay and batches are padded to their longest."""
    whole = bound(job, found, NOTHING_PADDED)
    return replace(whole, low_ns=round(whole.low_ns * WON.value))


COST = sentence("cmp014.cost")
PADDED = sentence("cmp014.padded")
NOTHING_PADDED = sentence("cmp014.nothing_padded")


@message("cmp014.are_padding")
def are_padding(*, padded: Share, share: Share, on: Message | None = None) -> None:
    """A share of the tokens is padding."""
