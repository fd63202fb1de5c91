"""Tensors are copied into another order, or read beside others that lie in one.

## What it detects

The time of kernels that only change the order of a tensor's elements (Transpose, AsStrided, ViewCopy on Ascend; copies
within one type on CUDA) per step, against the window and against the time of all kernels. On a processor, where the
profiler records strides, also what operators element by element take because their inputs lie in different orders, such
as a product of a permuted view and a contiguous tensor: their time beyond that of the same operator, or another of as
many inputs, on tensors about as large that lie in one order. Inputs that all share an order, channels last among
them, and expanded ones cost nothing here.

## Why it costs you

Such a copy reads with strides, far below the bandwidth of memory, writes a whole tensor and computes nothing. An
operator whose inputs disagree reads one of them in the same way, without vector instructions.

## When it is not a problem

A copy that makes the next operator faster than it costs, such as one transposition before several products.

## What to do

Choose a layout that needs no turning (attention with BSND or BNSD input as it comes), call contiguous once at the
entrance, and fuse permute with view.

## How to check

Profile the same step again: time of transpositions and strided copies per step falls, and operators on views take as
long as on contiguous tensors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import KEEP_LAYOUTS
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import MixedLayouts
from hermes.profiles.rules._compute import short
from hermes.profiles.rules._host import fact
from hermes.profiles.rules._layout import Layout, found_layout
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of the time of all kernels", source="docs/evidence/cmp006.md")
FLOOR = NOISE
_SHOWN = 3


@rule("CMP006", state="stable", fault=Fault.STRIDED_COPIES, cases=("CMP-09", "CMP-10", "CPU-24"))
def transposed_copies(
    job: Job, layouts: Rows[MixedLayouts], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding."""

    def part(row: StepCompute) -> int:
        return row.transpose_ns + sum(one.beyond_ns // one.steps for one in _mixed(layouts, row.rank))

    for finding in found_layout(job, ops, computes, replace(_LAYOUT, part=part)):
        mixed = _mixed(layouts, _worst(layouts, finding.ranks))
        if not mixed:
            yield finding
            continue
        yield replace(
            finding,
            message=f"{finding.share:.0%} of the step is spent on strided copies, and on inputs in different orders",
            blames=tuple(
                dict.fromkeys((*finding.blames, *(Blame(short(one.operator), "operator") for one in mixed[:_SHOWN])))
            ),
            evidence=(*finding.evidence, *(_beyond(job, one) for one in mixed[:_SHOWN])),
        )


def _mixed(layouts: Rows[MixedLayouts], rank: int) -> list[MixedLayouts]:
    """The operators of a rank that lose by the orders of their inputs, the most first."""
    rows = (one for one in layouts.of(rank) if one.beyond_ns)
    return sorted(rows, key=lambda one: (-one.beyond_ns, one.operator, one.shapes))


def _worst(layouts: Rows[MixedLayouts], ranks: Collection[int]) -> int:
    return max(ranks, key=lambda rank: (sum(one.beyond_ns for one in _mixed(layouts, rank)), -rank))


def _beyond(job: Job, one: MixedLayouts) -> Evidence:
    what = f"{one.operator} {short(one.shapes)}, beyond inputs in one order"
    return fact(job, one.rank, what, one.beyond_ns / one.steps, "ns a step")


_LAYOUT = Layout(
    kind="transpose",
    words="transpositions and strided copies",
    part=lambda row: row.transpose_ns,
    limit=LIMIT,
    confidence=confidence("CMP006"),
    fused=KEEP_LAYOUTS,
    others=Action(
        title="Choose layouts that need no turning",
        do="Find the copies by stack (with_stack=True), and drop contiguous() where the next operator takes strides; "
        "bring tensors that meet in one operator into one order once, before the first layer; give attention its "
        "tensors as the projection leaves them; torch.compile fuses many into their neighbours.",
        verify="aten::copy_ within one type, and contiguous, take less time.",
        risk="Some operators are slower on strided inputs: compare the step.",
        source="PyTorch performance tuning guide; case CMP-09",
    ),
)
