"""A large tensor is copied whole to append a little to it.

## What it detects

The rule finds calls of `torch.cat` in which one tensor makes up nine tenths of the result, and the result has 262,144
numbers or more. Typical examples are memory banks and queues of contrastive learning, caches of keys and values, replay
buffers, and histories. Together the calls take more than a twentieth of the step. Calls with gradients, and those of
torch.roll, do not count. The rule needs shapes: on a device those of kernels, or of the framework's operators.

## Why it costs you

A concatenation writes its whole result into new memory. To grow a tensor by a hundredth, it reads and writes all of the
tensor.

## When it is not a problem

A concatenation once in many steps costs little, even if the profile happens to show it. A copy is needed if you use the
old tensor beside the new one, as for class tokens or a sliding window over data.

## What to do

Allocate one tensor before the loop and write into it: over the oldest rows of a ring, or behind the last row. If you
read the values only at the end, append them to a list and concatenate once.

## How to check

Profile the same step again: the concatenation is gone, and `copy_` or `index_copy_` of the small part is there instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Message, Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TORCH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import KeptConcat
from hermes.profiles.measure.tensors.concat_growth import Concatenation, concatenation_of
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules.rule import rule
from hermes.profiles.rules.title_messages import some_of

LIMIT = Limit(value=0.05, unit="of window", source="docs/evidence/cmp018.md")
GROWN = Limit(value=0.9, unit="of the result comes from one of the tensors", source="docs/evidence/cmp018.md")
_LARGE = 262_144
"""The least number of elements of the concatenation's result: `docs/evidence/cmp018.md`."""


@rule("CMP018", state="preview", fault=Fault.CONCAT_GROWTH, layer="compute", cases=("MEM-20", "MEM-14"))
def growing_concat(
    job: Job, kept: Rows[KeptConcat], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding, of small parts appended to large tensors."""

    def part(row: OperatorCost) -> float:
        return float(row.ns) if _grown(kept, row) else 0.0

    def saved(row: OperatorCost) -> float:
        one = _grown(kept, row)
        # The small part and its place are still written.
        return row.ns * max(0.0, 1 - 2 * (1 - one.largest / one.elements)) if one else 0.0

    found = operators(job, ops, computes, COST, LIMIT, part)
    if found is None:
        return
    worst = longest(ops, part)
    largest = max((one for row in worst if (one := _grown(kept, row))), key=lambda one: (one.elements, one.shape))
    yield Loss(
        message=append_a_little(
            share=percents(found.share),
            on=some_of(job, found.ranks),
            before=f"{largest.largest / largest.elements:.2%}",
            shape=" x ".join(map(str, largest.shape)),
        ),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * sum(map(saved, worst)) / sum(map(part, worst))),
            high_ns=found.cost_ns,
            method=IN_PLACE,
        ),
        confidence=confidence("CMP018"),
        evidence=(*found.evidence, *shown(worst, part)),
        replay=faster(ops, saved),
        actions=_ACTIONS,
    )


_ACTIONS = (
    action(
        "cmp018.write_over_oldest",
        source="PyTorch documentation of torch.cat, torch.Tensor.copy_ and torch.Tensor.index_copy_",
        fit=TORCH,
        cases=("MEM-20",),
    ),
    action("cmp018.append_to_list", source="PyTorch documentation of torch.cat", fit=TORCH),
)


def _grown(kept: Rows[KeptConcat], row: OperatorCost) -> Concatenation | None:
    """The concatenation of a row of operators, if it appends a little to a large tensor without gradients."""
    one = concatenation_of(row.operator, row.shapes)
    if one is None or one.elements < _LARGE or one.largest < GROWN.value * one.elements:
        return None
    reused = any(own.rank in row.ranks and own.shape == one.text for own in kept)
    return None if reused else one


COST = sentence("cmp018.cost")
IN_PLACE = sentence("cmp018.in_place")


@message("cmp018.append_a_little")
def append_a_little(*, share: Share, on: Message | None = None, before: Name, shape: Name) -> None:
    """A little is appended to a large tensor: the share of the time, and how little of the result is new."""
