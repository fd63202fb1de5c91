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

from collections.abc import Iterator, Mapping

from hermes.analyze.compute_measures import OperatorCost
from hermes.diagnose.finding import Action, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._compute import longest, named, operators, shown, vendor
from hermes.diagnose.rules._limits import DOUBT
from hermes.knowledge.operators import MATRIX

BOUND = Threshold(
    value=0.80,
    unit="of its roof makes an operator bound by it",
    source="`msprof op`, and the advisor of msprof-analyze: below 80 % no pipe bounds a kernel",
)
AMD = Threshold(
    value=0.54,
    unit="of the peak of MI300X takes the place of 80 % there",
    source="architecture file of TraceLens 0.1 for MI300X: 708 of 1307 TFLOP/s in bfloat16 were reached",
)
LIMIT = Threshold(
    value=0.25,
    unit="of the time of these operators",
    source="npu_slow of msprof-analyze: cube operators are marked from 60 % of the matrix unit down, 80 % is good",
)


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    rows = [row for row in measures.compute.operators if _lost(measures, row) is not None]
    told = sum(row.ns for row in rows)

    def saved(row: OperatorCost) -> float:
        return _lost(measures, row) or 0.0

    if not told or sum(map(saved, rows)) <= LIMIT.value * told:
        return
    found = operators(measures, "time beyond 80 % of the roof", DOUBT, saved)
    if found is None:
        return
    worst = longest(measures, saved)
    counted = any(row.losses.pipe_ns is not None for row in worst)
    kinds = ", ".join(dict.fromkeys(row.kind for row in worst[:6]))
    yield Finding(
        code="CMP001",
        layer="compute",
        cause="matrix units underused",
        title=f"Matrix units far below their roof cost {found.share:.0%} of the step ({kinds})",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=found.calls,
        fresh=found.fresh,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: these operators reach 80 % of their roof"),
        confidence=round((0.6 if counted else 0.5) * measures.certainty, 2),
        evidence=(*found.evidence, *shown(worst, saved)),
        # What a library reaches is not known, so nothing is replayed: the least that it gives is nothing.
        actions=(_TUNE.get(vendor(measures, found.ranks), _ANY), _ROWS),
    )


def _lost(measures: Measures, row: OperatorCost) -> float | None:
    """Nanoseconds beyond 80 % of the roof, None where neither counters nor a roof tell."""
    if row.kind not in MATRIX:
        return None
    if row.losses.pipe_ns is not None:
        return float(min(row.ns, row.losses.pipe_ns + (row.losses.blocks_ns or 0)))
    if row.roof_share is None:
        return None
    aim = AMD.value if vendor(measures, row.ranks) == "amd" else BOUND.value
    return row.ns * max(0.0, 1 - row.roof_share / aim)


_ROWS = Action(
    title="Give each product more rows",
    do="Fold batch and sequence into the rows of one product, raise the micro-batch as far as memory allows, and "
    "replace a row of small products by one torch.bmm or grouped product.",
    verify="The same operators reach a larger share of their roof; time per sample falls.",
    risk="Memory; a larger batch may change convergence.",
    source="NVIDIA, Matrix Multiplication Background User's Guide, section 3; msprof-analyze, aicore_performance.yaml",
)
_ANY = Action(
    title="Let the compiler choose the algorithm",
    do="torch.compile(model, mode='max-autotune'); for convolutions of fixed shape torch.backends.cudnn.benchmark = "
    "True.",
    verify="Other kernels take the place of the longest ones, and take less time.",
    risk="Time to tune at the start; results hold for one version and one shape.",
    source="PyTorch documentation of torch.compile; PyTorch performance tuning guide",
)
_TUNE: Mapping[str, Action] = {
    "ascend": Action(
        title="Tune the tiles of these operators",
        do="Run AOE on them (aoe --job_type=2 with the operators named here), and keep "
        "torch.npu.config.allow_internal_format at its default for convolutions.",
        verify="mac and mte2 ratios of these operators rise to 80 % in a Level2 capture.",
        risk="Time to tune; tuned tiles hold for one CANN version.",
        source="advisor of msprof-analyze: AOE for operators without a bound",
    )
}

RULE = Rule(
    code="CMP001", page=__doc__ or "", find=find, cases=("CMP-26", "CMP-24", "CMP-13", "CMP-38", "PAR-11", "PAR-16")
)
