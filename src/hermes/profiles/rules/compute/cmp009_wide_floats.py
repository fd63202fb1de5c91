"""Products and convolutions run in float32 or float64 where the chip has faster types.

## What it detects

The rule looks at products, convolutions and attention in float32 or float64. From shapes, types and peaks it estimates
the saving per step in the next faster type of the chip: TF32 or HF32 for float32, else 16 bits. The time to move their
bytes stays. On a processor, the rule counts half of the time of all operators in float64. CMP032 looks at float32 on a
processor.

## Why it costs you

Matrix units are 2 to 16 times faster in shorter types. TF32 and HF32 keep float32 tensors and shorten the numbers only
inside the product.

## When it is not a problem

Wide types are needed if the result needs all 24 bits of float32, as in some scientific models. Products may be a small
part of the step.

## What to do

Switch TF32 or HF32 on, or train in mixed precision with bfloat16.

## How to check

Profile the same step again: products take less time (on CUDA their kernels are named tf32); the loss follows the one
before."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import MIXED, SHORTER_FLOATS, TORCH
from hermes.model.compute_measures import SWITCHED, ChipUsed, OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, of_device, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import bound, has_device
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT
HALF = Limit(value=0.5, unit="of operators in float64, on a processor", source="docs/evidence/cpu-roofline.md")
TWICE = Limit(
    value=0.5,
    unit="of products in float32, on an unknown chip whose kernels use matrix units",
    source="the table of chips: with matrix units, products in 16 bits are at least twice as fast as in float32",
)
# Types that replace a wide type, of which the first that is faster on the chip counts: some cards' TF32 is not.
_FASTER = {"fp64": ("fp32",), "fp32": (*SWITCHED, "bf16", "fp16")}


@rule("CMP009", state="stable", fault=Fault.SLOW_TYPE, cases=("CMP-03", "CMP-04", "CMP-05"))
def wide_floats(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], chips: Rows[ChipUsed]
) -> Iterator[Loss]:
    """At most one finding of wide types, and one of float64 on a processor, which programs rarely intend."""
    by_chip = {chip.chip: chip for chip in chips}

    def double(row: OperatorCost) -> float:
        return row.ns * HALF.value if _is_double(job, row) else 0.0

    def saved(row: OperatorCost) -> float:
        return 0.0 if _is_double(job, row) else _saved(job, row, by_chip.get(row.chip))

    yield from _found(job, ops, computes, double, (_SINGLE,))
    yield from _found(job, ops, computes, saved, ())


def _found(
    job: Job,
    ops: Rows[OperatorCost],
    computes: Rows[StepCompute],
    saved: Callable[[OperatorCost], float],
    actions: tuple[Action, ...],
) -> Iterator[Loss]:
    """At most one finding; without `actions`, with the chip's action."""
    found = operators(job, ops, computes, COST, LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    types = ", ".join(sorted({row.precision for row in worst}))
    yield Loss(
        message=(products_cost if not actions else operators_cost)(types=types, share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, KEEP_SHARE),
        confidence=confidence("CMP009.float64" if _is_double(job, worst[0]) else "CMP009"),
        evidence=(*found.evidence, *shown(worst, saved)),
        # Whether operators keep their share of the roof is not known, so nothing is replayed.
        actions=actions or ((SHORTER_FLOATS,) if of_device(job, found.ranks).fused else MIXED),
    )


def _is_double(job: Job, row: OperatorCost) -> bool:
    """Whether an operator computed in float64 on a processor: half as many numbers a lane and a byte as in float32."""
    return row.precision == "fp64" and not any(has_device(job, rank) for rank in row.ranks)


def _saved(job: Job, row: OperatorCost, chip: ChipUsed | None) -> float:
    if row.kind not in MATRIX:
        return 0.0
    if row.chip is None:
        # In that case the kernel's name told the type, and that the chip has units for shorter types.
        told = of_device(job, row.ranks).floats_in_names and row.precision == "fp32"
        return row.ns * TWICE.value if told else 0.0
    return row.ns * chip.saved_in(row, _FASTER.get(row.precision, ())) if chip else 0.0


_SINGLE = action(
    "cmp009.compute_float32",
    source="PyTorch documentation of torch.from_numpy and torch.set_default_dtype",
    fit=TORCH,
    whole=True,
)


COST = sentence("cmp009.cost")
KEEP_SHARE = sentence("cmp009.keep_share")


@message("cmp009.products_cost")
def products_cost(*, types: Name, share: Share) -> None:
    """Products in a wide type cost time on matrix units."""


@message("cmp009.operators_cost")
def operators_cost(*, types: Name, share: Share) -> None:
    """Operators in a wide type cost time."""
