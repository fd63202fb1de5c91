"""Kernels leave cores without work, or no part of a core is busy.

## What it detects

Outside of products, convolutions and attention (CMP001 looks at those): the time in which cores had no block to work
on, and that in which no pipe of the cores was busy for 80 % of the time, per step, against the window and against the
time of all kernels. Pipes need counters (Ascend from Level1 with aic_metrics).

## Why it costs you

A kernel of 8 blocks uses 8 of 48 vector cores and takes six times as long as it could. A core whose pipes all wait for
each other does nothing in that time.

## When it is not a problem

Tiny kernels cannot fill a chip; then fewer and larger ones are the cure, not faster ones.

## What to do

Put several small operators into one (foreach, fused or compiled), enlarge batches, and tune the tiles of the longest.

## How to check

Profile the same step again: blocks reach the number of cores, and the kernels' time falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import MORE_WORK_FOR_A_KERNEL
from hermes.knowledge.operators import MATRIX
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.10, unit="of the time of all kernels", source="case CMP-25; operator bound check of msprof-analyze"
)
FLOOR = DOUBT


@rule(
    "CMP010",
    state="preview",
    fault=Fault.IDLE_CORES,
    cases=("CMP-12", "CMP-25", "CMP-13", "CMP-33", "CMP-39", "CMP-42"),
)
def idle_cores(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding."""
    every = sum(row.ns for row in ops)
    idle, slack = (sum(part) for part in ([_idle(row) for row in ops], _slacks(ops)))
    if not every or idle + slack <= LIMIT.value * every:
        return
    found = operators(job, ops, computes, "cores without a block, or with no busy pipe", FLOOR, _lost)
    if found is None:
        return
    worst = longest(ops, _lost)
    parts = tuple(
        Evidence(
            what=what,
            value=round(ns / every, 6),
            unit="of the time of all kernels",
            threshold=None,
            where="all ranks and steps",
        )
        for what, ns in (("cores without a block", idle), ("no pipe busy for 80 %", slack))
    )
    yield Loss(
        message=f"Kernels that leave cores or their pipes idle cost {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: every core has work, and one of its pipes is busy"),
        confidence=confidence("CMP010"),
        evidence=(*found.evidence, *parts, *shown(worst, _lost)),
        # How much of it fusion or tuning wins is not known, so nothing is replayed.
        actions=(
            Action(
                title=f"Give {', '.join(named(worst))} more work at once",
                do=MORE_WORK_FOR_A_KERNEL,
                verify="Fewer kernels with more blocks, and less time in all.",
                risk="Memory of larger batches; time to tune.",
                source="msprof-analyze, aicore_performance.yaml and block dimension check",
            ),
        ),
    )


def _idle(row: OperatorCost) -> float:
    return 0.0 if row.kind in MATRIX else float(row.losses.blocks_ns or 0)


def _slacks(ops: Rows[OperatorCost]) -> list[float]:
    return [_lost(row) - _idle(row) for row in ops]


def _lost(row: OperatorCost) -> float:
    return 0.0 if row.kind in MATRIX else float((row.losses.blocks_ns or 0) + (row.losses.pipe_ns or 0))
