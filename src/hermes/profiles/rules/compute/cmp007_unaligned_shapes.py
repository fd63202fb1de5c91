"""Shapes of products do not fit the tiles of the matrix units.

## What it detects

The rule looks at products whose inner axis is not a multiple of the chip's unit: 512 bytes on Ascend, 16 bytes on
NVIDIA. Unaligned products must also reach less of their roof than the aligned products of the same capture. If the
capture has no aligned products, unaligned ones must reach less than half of their roof. The rule counts the time beyond
that share of the roof, per step.

## Why it costs you

The matrix unit works on whole tiles: the last tile is padded, and rows that begin at odd addresses are read twice.

## When it is not a problem

If aligned products of the same model are as far from their roof, the shape is not the cause. Small products are slow in
any shape.

## What to do

Pad the vocabulary, hidden size and head size: to multiples of 8 elements of 16 bits on tensor cores, of 128 or 256 on
Ascend.

## How to check

Pad the axis in a small test: more operations must take less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Count, Names, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TILES, TILES_SOURCE
from hermes.model.advice_fit import Fit
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Blame, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

HALF = Limit(
    value=0.50,
    unit="of the roof is the reference if no aligned products were captured",
    source="case CMP-11",
)
FLOOR = NOISE


@rule("CMP007", state="stable", fault=Fault.UNALIGNED_SHAPES, cases=("CMP-11", "PAR-18"))
def unaligned_shapes(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of products whose shapes do not fit the chip's tile."""
    aims = _aims(ops)

    def beyond(row: OperatorCost) -> float:
        if row.aligned is not False or row.roof_share is None:
            return 0.0
        return row.ns * max(0.0, 1 - row.roof_share / aims.get(row.chip, HALF.value))

    found = operators(job, ops, computes, COST, FLOOR, beyond)
    if found is None:
        return
    worst = longest(ops, beyond)
    yield Loss(
        message=do_not_fit(share=percents(found.share)),
        ranks=found.ranks,
        blames=tuple(dict.fromkeys(Blame(row.shapes, "shape") for row in worst))[:3],
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_ALIGNED)),
        confidence=confidence("CMP007" if worst[0].chip in aims else "CMP007.none_aligned"),
        assumed=worst[0].chip not in aims,
        evidence=(*found.evidence, *shown(worst, beyond)),
        replay=faster(ops, beyond) if worst[0].chip in aims else (),
        actions=_pad(named(worst)),
    )


def _pad(operators: tuple[Blame, ...]) -> tuple[Action, ...]:
    base = Action(
        title=pad(operators=operators),
        do=pad_do(),
        verify=PAD_VERIFY,
        risk=PAD_RISK,
        source=TILES_SOURCE,
        cases=("CMP-11",),
    )
    own = (replace(base, do=pad_do(elements=size), fit=Fit(chips=(chip,))) for chip, size in TILES.items())
    return (*own, base)


def _aims(ops: Rows[OperatorCost]) -> dict[str | None, float]:
    """For each chip, the share of the roof that its aligned products reach, weighted by time."""
    best: dict[str | None, float] = {}
    took: dict[str | None, int] = {}
    for row in ops:
        if row.aligned and row.roof_share is not None:
            best[row.chip] = best.get(row.chip, 0.0) + row.ns * row.roof_share
            took[row.chip] = took.get(row.chip, 0) + row.ns
    return {chip: best[chip] / ns for chip, ns in took.items() if ns}


COST = sentence("cmp007.cost")
AS_ALIGNED = sentence("cmp007.as_aligned")
PAD_VERIFY = sentence("cmp007.pad_verify")
PAD_RISK = sentence("cmp007.pad_risk")


@message("cmp007.do_not_fit")
def do_not_fit(*, share: Share) -> None:
    """Shapes of products do not fit the chip's tile."""


@message("cmp007.pad")
def pad(*, operators: Names) -> None:
    """To pad the inner axes of operators."""


@message("cmp007.pad_do")
def pad_do(*, elements: Count | None = None) -> None:
    """Which sizes to choose."""
