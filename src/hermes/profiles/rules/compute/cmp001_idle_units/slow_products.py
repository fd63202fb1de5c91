"""Products, convolutions and attention run far below what the matrix units could do."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import GPU, MORE_ROWS, TORCH, TUNED_TILES
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, of_device, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.gain_messages import at_most
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
    """At most one finding, of products, convolutions and attention far below the roof."""
    rows = [row for row in ops if _lost(job, row) is not None]
    told = sum(row.ns for row in rows)

    def saved(row: OperatorCost) -> float:
        return _lost(job, row) or 0.0

    if not told or sum(map(saved, rows)) <= LIMIT.value * told:
        return
    found = operators(job, ops, computes, COST_OF_PRODUCTS, DOUBT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    counted = any(row.losses.pipe_ns is not None for row in worst)
    kinds = ", ".join(dict.fromkeys(row.kind for row in worst[:6]))
    yield Loss(
        message=far_below(share=percents(found.share), kinds=kinds),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=REACH_ROOF)),
        confidence=confidence("CMP001" if counted else "CMP001.estimated"),
        evidence=(*found.evidence, *shown(worst, saved)),
        # The rate that a library reaches is not known, so nothing is replayed: the least gain is 0.
        actions=(*((TUNED_TILES,) if of_device(job, found.ranks).fused else _ANY), *MORE_ROWS),
    )


def _lost(job: Job, row: OperatorCost) -> float | None:
    """Nanoseconds beyond 80 % of the roof; None if neither counters nor a roof are known."""
    if row.kind not in MATRIX:
        return None
    if row.losses.pipe_ns is not None:
        return float(min(row.ns, row.losses.pipe_ns + (row.losses.blocks_ns or 0)))
    if row.roof_share is None:
        return None
    aim = of_device(job, row.ranks).aim.value
    return row.ns * max(0.0, 1 - row.roof_share / aim)


_ANY = variants(
    "cmp001.let_compiler_choose",
    {"_cudnn": GPU, "": TORCH},
    source="PyTorch documentation of torch.compile; PyTorch performance tuning guide",
    cases=("CMP-24",),
)


COST_OF_PRODUCTS = sentence("cmp001.cost_of_products")
REACH_ROOF = sentence("cmp001.reach_roof")


@message("cmp001.far_below")
def far_below(*, share: Share, kinds: Name) -> None:
    """Products, convolutions or attention run far below the roof."""
