"""Kernels slow down beside communication.

## What it detects

The rule compares kernels of the same shape that ran at least five times beside transfers and five times alone. If these
kernels take more than a fifth longer beside transfers, the rule counts their total loss per step.

## Why it costs you

Kernels and transfers share the memory bandwidth, and some collectives use cores. Contention takes back a part of the
time that overlap saves.

## When it is not a problem

Contention is no problem if exposed communication would cost more: only the sum of both counts.

## What to do

Overlap communication with products rather than with elementwise work. Copy less inside collectives, and give them fewer
channels.

## How to check

Profile the same step again: equal kernels take as long beside transfers as alone, and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.globs import literal_pattern
from hermes.base.message import Name, Share, message, sentence
from hermes.base.units import duration
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import ROOM_BESIDE_TRANSFERS
from hermes.model.comm_measures import Contention, GroupOp
from hermes.model.compute_measures import OperatorCost
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import short
from hermes.profiles.rules._cost_by_rank import loss, percents, steps_of
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
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
    """At most one finding, of kernels and communication that slow each other down."""
    rows = [row for row in slowdowns if row.kind == "compute" and row.slowdown > 1 + SLOWER.value and row.loss_ns > 0]
    ranks = sorted({rank for group in groups for rank in group.ranks})
    if not rows or not ranks:
        return
    mean = sum(row.loss_ns for row in rows) / steps_of(job, ranks)
    found = loss(
        job,
        COST,
        FLOOR,
        lambda split: round(min(mean, split.overlapped_comm_ns or 0)) if split.rank in ranks else None,
    )
    if found is None:
        return
    worst = sorted(rows, key=lambda row: (-row.loss_ns, row.name, row.detail))
    slowest = max(row.slowdown for row in rows)
    yield Loss(
        message=slower(times=f"{slowest:.2g}", share=percents(found.share)),
        ranks=found.ranks,
        blames=tuple(dict.fromkeys(Blame(short(row.name), "operator") for row in worst))[:3],
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=AS_ALONE)),
        confidence=confidence("COM006"),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=beside_over_alone(operator=short(row.name), detail=short(row.detail)),
                    value=round(row.slowdown, 4),
                    unit="times",
                    threshold=1 + SLOWER.value,
                    where=f"{duration(row.beside_median_ns)} beside, {duration(row.alone_median_ns)} alone",
                )
                for row in worst[:3]
            ),
        ),
        replay=_alone([(row.name, row.loss_ns) for row in worst], ops),
        actions=ROOM_BESIDE_TRANSFERS,
    )


def _alone(rows: list[tuple[str, int]], ops: Rows[OperatorCost]) -> tuple[str, ...]:
    """Replay changes that remove the loss from all kernels of a type, because a replay cannot tell kernels apart."""
    whole: dict[str, int] = {}
    for row in ops:
        whole[row.operator] = whole.get(row.operator, 0) + row.ns
    lost: dict[str, int] = {}
    for name, ns in rows:
        lost[name] = lost.get(name, 0) + ns
    return tuple(
        f"op:{literal_pattern(name)}={max(0.0, 1 - ns / whole[name]):.4g}"
        for name, ns in list(lost.items())[:_MOST]
        if whole.get(name)
    )


COST = sentence("com006.cost")
AS_ALONE = sentence("com006.as_alone")


@message("com006.slower")
def slower(*, times: Name, share: Share) -> None:
    """Kernels are slower beside communication, or the reverse."""


@message("com006.beside_over_alone")
def beside_over_alone(*, operator: Name, detail: Name) -> None:
    """How much slower one kernel is."""
