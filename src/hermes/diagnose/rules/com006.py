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
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._component import loss, steps_of
from hermes.diagnose.rules._compute import short
from hermes.diagnose.rules._limits import NOISE

SLOWER = Threshold(
    value=0.20,
    unit="longer beside transfers than alone",
    source="Hermes, ATC 2025: contention for HBM costs 20 to 40 %",
)
FLOOR = NOISE
_MOST = 8


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    rows = [
        row
        for row in measures.communication.contention
        if row.kind == "compute" and row.slowdown > 1 + SLOWER.value and row.loss_ns > 0
    ]
    ranks = sorted({rank for group in measures.communication.groups for rank in group.ranks})
    if not rows or not ranks:
        return
    mean = sum(row.loss_ns for row in rows) / steps_of(measures, ranks)
    found = loss(
        measures,
        "kernels beside transfers, beyond the same alone",
        FLOOR,
        lambda split: round(min(mean, split.overlapped_comm_ns or 0)) if split.rank in ranks else None,
    )
    if found is None:
        return
    worst = sorted(rows, key=lambda row: (-row.loss_ns, row.name, row.detail))
    slowest = max(row.slowdown for row in rows)
    yield Finding(
        code="COM006",
        layer="communication",
        cause="contention",
        title=f"Kernels beside communication take up to {slowest - 1:.0%} longer, {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=tuple(dict.fromkeys(short(row.name) for row in worst))[:3],
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: they take as long as alone, with the same overlap"),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            *(
                Evidence(
                    what=f"{short(row.name)} {short(row.detail)}, beside transfers over alone",
                    value=round(row.slowdown, 4),
                    unit="times",
                    threshold=1 + SLOWER.value,
                    where=f"{row.beside_median_ns} ns beside, {row.alone_median_ns} ns alone",
                )
                for row in worst[:3]
            ),
        ),
        replay=_alone([(row.name, row.loss_ns) for row in worst], measures),
        actions=(
            Action(
                title="Let other work overlap, and let collectives copy less",
                do="export TORCH_HCCL_ZERO_COPY=1 with PYTORCH_NPU_ALLOC_CONF=expandable_segments:True on Ascend; "
                "NCCL_MAX_CTAS=8 on CUDA; start collectives so that they run beside products, not beside elementwise "
                "kernels.",
                verify="The slowdown in the report's table of contention falls, and the step with it.",
                risk="Less overlap may expose more communication than contention costs.",
                source="torch_npu documentation of TORCH_HCCL_ZERO_COPY; NCCL documentation of NCCL_MAX_CTAS",
            ),
        ),
    )


def _alone(rows: list[tuple[str, int]], measures: Measures) -> tuple[str, ...]:
    """Changes that take the loss off all kernels of a type: the replay cannot tell those beside transfers apart."""
    whole: dict[str, int] = {}
    for row in measures.compute.operators:
        whole[row.operator] = whole.get(row.operator, 0) + row.ns
    lost: dict[str, int] = {}
    for name, ns in rows:
        lost[name] = lost.get(name, 0) + ns
    return tuple(
        f"op:{literal(name)}={max(0.0, 1 - ns / whole[name]):.4g}"
        for name, ns in list(lost.items())[:_MOST]
        if whole.get(name)
    )


RULE = Rule(code="COM006", page=__doc__ or "", find=find, cases=("COM-13", "COM-14"))
