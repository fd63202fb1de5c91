"""Kernels slow down beside communication.

## What it detects

Kernels of the same shape that ran both beside transfers and alone, at least five times each: where they take more than
a fifth longer beside transfers, what all of them lose per step.

## Why it costs you

Both need the memory's bandwidth, and some collectives take cores. What overlap hides, contention gives back in part.

## When it is not a problem

When the communication that is hidden would cost more if it were not: only the sum counts.

## What to do

Let products overlap with communication rather than elementwise work, copy less inside collectives, and give them fewer
channels.

## How to check

Profile the same step again: equal kernels take as long beside transfers as alone, and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.globs import literal
from hermes.base.units import duration
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import ROOM_BESIDE_TRANSFERS
from hermes.model.comm_measures import Contention, GroupOp
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._component import loss, steps_of
from hermes.profiles.rules._compute import short
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

SLOWER = Limit(
    value=0.20,
    unit="longer beside transfers than alone",
    source="Hermes, ATC 2025: contention for HBM costs 20 to 40 %",
)
FLOOR = NOISE
_MOST = 8


@rule("COM006", state="stable", fault=Fault.CONTENTION, cases=("COM-13", "COM-14"))
def contention(job: Job, groups: Rows[GroupOp], slowdowns: Rows[Contention], ops: Rows[OperatorCost]) -> Iterator[Loss]:
    """At most one finding."""
    rows = [row for row in slowdowns if row.kind == "compute" and row.slowdown > 1 + SLOWER.value and row.loss_ns > 0]
    ranks = sorted({rank for group in groups for rank in group.ranks})
    if not rows or not ranks:
        return
    mean = sum(row.loss_ns for row in rows) / steps_of(job, ranks)
    found = loss(
        job,
        "kernels beside transfers, beyond the same alone",
        FLOOR,
        lambda split: round(min(mean, split.overlapped_comm_ns or 0)) if split.rank in ranks else None,
    )
    if found is None:
        return
    worst = sorted(rows, key=lambda row: (-row.loss_ns, row.name, row.detail))
    slowest = max(row.slowdown for row in rows)
    yield Loss(
        message=f"Kernels beside communication take up to {slowest:.2g} times as long, {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=tuple(dict.fromkeys(Blame(short(row.name), "operator") for row in worst))[:3],
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they take as long as alone, with the same overlap"),
        confidence=confidence("COM006"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"{short(row.name)} {short(row.detail)}, beside transfers over alone",
                    value=round(row.slowdown, 4),
                    unit="times",
                    threshold=1 + SLOWER.value,
                    where=f"{duration(row.beside_median_ns)} beside, {duration(row.alone_median_ns)} alone",
                )
                for row in worst[:3]
            ),
        ),
        replay=_alone([(row.name, row.loss_ns) for row in worst], ops),
        actions=(ROOM_BESIDE_TRANSFERS,),
    )


def _alone(rows: list[tuple[str, int]], ops: Rows[OperatorCost]) -> tuple[str, ...]:
    """Changes that take the loss off all kernels of a type: the replay cannot tell those beside transfers apart."""
    whole: dict[str, int] = {}
    for row in ops:
        whole[row.operator] = whole.get(row.operator, 0) + row.ns
    lost: dict[str, int] = {}
    for name, ns in rows:
        lost[name] = lost.get(name, 0) + ns
    return tuple(
        f"op:{literal(name)}={max(0.0, 1 - ns / whole[name]):.4g}"
        for name, ns in list(lost.items())[:_MOST]
        if whole.get(name)
    )
