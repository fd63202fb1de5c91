"""A large tensor is copied whole to append a little to it.

## What it detects

Calls of `torch.cat` of which one tensor has nine tenths of the result or more, where the result has 262,144 numbers or
more: memory banks and queues of contrastive learning, caches of keys and values, replay buffers, histories. Together
more than a twentieth of the step. Calls that gradients flow through, and those of torch.roll, do not count. It needs
shapes; on a device they are those of kernels, or of the framework's operators.

## Why it costs you

A concatenation writes all of its result into new memory. What grows by a hundredth is read and written whole.

## When it is not a problem

When it happens once in many steps, and the profile happens to show it; when the old tensor is needed beside the new
one, as for class tokens or a window that slides over data.

## What to do

Write into a tensor that is made once: over the oldest rows of a ring, or behind the last row of one that is large
enough. Append to a list, and concatenate once, what is only read at the end.

## How to check

Profile the same step again: the concatenation is gone, and `copy_` or `index_copy_` of the small part is there instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import KeptConcat
from hermes.profiles.measure.tensors.concat_growth import Joined, joined
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._host import on
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of window", source="docs/evidence/cmp018.md")
GROWN = Limit(value=0.9, unit="of the result is one of the tensors, at least", source="docs/evidence/cmp018.md")
_LARGE = 262_144
"""Numbers that the result has at least: `docs/evidence/cmp018.md`."""


@rule("CMP018", state="preview", fault=Fault.CONCAT_GROWTH, cases=("MEM-20", "MEM-14"), direct=True)
def growing_concat(
    job: Job, kept: Rows[KeptConcat], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""

    def part(row: OperatorCost) -> float:
        return float(row.ns) if _grown(kept, row) else 0.0

    def saved(row: OperatorCost) -> float:
        one = _grown(kept, row)
        # Both the small part and its place are still written.
        return row.ns * max(0.0, 1 - 2 * (1 - one.largest / one.elements)) if one else 0.0

    found = operators(job, ops, computes, "concatenations of a large tensor with small ones", LIMIT, part)
    if found is None:
        return
    worst = longest(ops, part)
    largest = max((one for row in worst if (one := _grown(kept, row))), key=lambda one: (one.elements, one.shape))
    yield Loss(
        message=f"Copying large tensors to append a little takes {found.share:.0%} of the step{on(job, found)}; "
        f"{largest.largest / largest.elements:.2%} of {' x '.join(map(str, largest.shape))} was there before",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * sum(map(saved, worst)) / sum(map(part, worst))),
            high_ns=found.cost_ns,
            method="the new rows alone are written, in place",
        ),
        confidence=confidence("CMP018"),
        evidence=(*found.evidence, *shown(worst, part)),
        replay=faster(ops, saved),
        actions=_ACTIONS,
    )


_ACTIONS = (
    Action(
        title="Write over the oldest rows of a tensor that is kept",
        do="queue[at : at + n] = new.detach(); at = (at + n) % len(queue), where len(queue) is a multiple of n, or "
        "queue.index_copy_(0, (at + torch.arange(n)) % len(queue), new.detach()). A cache that grows: make it once for "
        "the longest sequence, write keys.narrow(2, at, n).copy_(new), and read keys.narrow(2, 0, at + n).",
        verify="aten::cat on the large tensor is gone.",
        risk="Rows of a ring are in another order; a graph that has not run backward yet and still needs the old "
        "values gets the new ones or an error: write after the optimizer's step.",
        source="PyTorch documentation of torch.cat, torch.Tensor.copy_ and torch.Tensor.index_copy_",
    ),
    Action(
        title="Append to a list, and concatenate once",
        do="found.append(out.detach()) in the loop, and torch.cat(found) behind it, where only the end reads all.",
        verify="One call of aten::cat in place of one for each step.",
        risk="All parts stay in memory until then, as they do now.",
        source="PyTorch documentation of torch.cat",
    ),
)


def _grown(kept: Rows[KeptConcat], row: OperatorCost) -> Joined | None:
    """What a row of operators concatenates, where a little is appended to a large tensor without gradients."""
    one = joined(row.operator, row.shapes)
    if one is None or one.elements < _LARGE or one.largest < GROWN.value * one.elements:
        return None
    reused = any(own.rank in row.ranks and own.shape == one.text for own in kept)
    return None if reused else one
