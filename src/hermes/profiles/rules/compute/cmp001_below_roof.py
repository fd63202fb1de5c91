"""Products, convolutions and attention run far below what the matrix units could do.

## What it detects

The time that operators of the matrix units (products, convolutions, attention) take beyond what they would at 80 % of
their roof, per step. Where counters of the pipes were recorded, they decide: a pipe that is busy for 80 % of the time
bounds its kernel. Else the roofline from shapes, types and the chip's peak does; operators without a formula are left
out.

## Why it costs you

Matrix units make up nearly all of a chip's speed. At half of their roof, half of that time is spent on waiting for
data, on tiles that are not full, or on starting and ending.

## When it is not a problem

Small products cannot reach the roof: a step of a small model is bound by something else. A peak in a data sheet is not
reached by any library on some chips: on AMD, what a library was measured to reach stands for it.

## What to do

Give a product more rows (batch and sequence folded into rows, larger micro-batches), make inner axes fit the tiles
(CMP007), batch small products of equal shape, and try the library's own choice of algorithm or tiles.

## How to check

Profile the same step again: the operators' share of their roof rises, and their time per step falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import MORE_ROWS, TUNED_TILES
from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, of_device, operators, shown
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.25,
    unit="of the time of these operators",
    source="msprof-analyze: operators are slow from 60 % of the matrix unit down, 80 % is good",
)


@rule(
    "CMP001",
    state="stable",
    fault=Fault.MATRIX_UNITS_UNDERUSED,
    cases=("CMP-26", "CMP-24", "CMP-13", "CMP-38", "PAR-11", "PAR-16"),
)
def below_roof(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding."""
    rows = [row for row in ops if _lost(job, row) is not None]
    told = sum(row.ns for row in rows)

    def saved(row: OperatorCost) -> float:
        return _lost(job, row) or 0.0

    if not told or sum(map(saved, rows)) <= LIMIT.value * told:
        return
    found = operators(job, ops, computes, "time beyond 80 % of the roof", DOUBT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    counted = any(row.losses.pipe_ns is not None for row in worst)
    kinds = ", ".join(dict.fromkeys(row.kind for row in worst[:6]))
    yield Loss(
        message=f"Matrix units far below their roof cost {found.share:.0%} of the step ({kinds})",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: these operators reach 80 % of their roof"),
        confidence=confidence("CMP001" if counted else "CMP001.estimated"),
        evidence=(*found.evidence, *shown(worst, saved)),
        # What a library reaches is not known, so nothing is replayed: the least that it gives is nothing.
        actions=(TUNED_TILES if of_device(job, found.ranks).fused else _ANY, MORE_ROWS),
    )


def _lost(job: Job, row: OperatorCost) -> float | None:
    """Nanoseconds beyond 80 % of the roof, None where neither counters nor a roof tell."""
    if row.kind not in MATRIX:
        return None
    if row.losses.pipe_ns is not None:
        return float(min(row.ns, row.losses.pipe_ns + (row.losses.blocks_ns or 0)))
    if row.roof_share is None:
        return None
    aim = of_device(job, row.ranks).aim.value
    return row.ns * max(0.0, 1 - row.roof_share / aim)


_ANY = Action(
    title="Let the compiler choose the algorithm",
    do="torch.compile(model, mode='max-autotune'); for convolutions of fixed shape torch.backends.cudnn.benchmark = "
    "True.",
    verify="Other kernels take the place of the longest ones, and take less time.",
    risk="Time to tune at the start; results hold for one version and one shape.",
    source="PyTorch documentation of torch.compile; PyTorch performance tuning guide",
)
