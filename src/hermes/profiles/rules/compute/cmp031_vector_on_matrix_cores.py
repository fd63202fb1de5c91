"""Elementwise work runs on the cores of the matrix unit, while the vector cores stand still.

## What it detects

Kernels of elementwise operators, reductions, norms and the like whose core is one of the matrix unit (`AI_CORE`, or a
mixed kernel that the matrix core leads), on a device that has vector cores of its own. The rule takes their time per
step. Mixed kernels that vector cores lead (`MIX_AIV`) are none of these.

## Why it costs you

A matrix core has half as many vector units beside it as there are vector cores, and while it works on vectors no
product can run there.

## When it is not a problem

On devices with one kind of core. For operators whose kernel needs both, such as a product with a fused activation.

## What to do

Find out why the kernel was compiled for that core: an operator of an older library, a type that the vector kernel does
not take, or a dynamic shape. Change that, or write the operator for the vector core.

## How to check

Profile again at Level1: the core of these operators is `AI_VECTOR_CORE`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import ONTO_VECTOR_CORES
from hermes.knowledge.vendors import OF_ALL_VECTOR_CORES
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.measure.structure.cores import VectorOnMatrix
from hermes.profiles.rules._component import loss, steps_of
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.02,
    unit="of window",
    source="advisor of msprof-analyze: losses of operators from 1 % of the step on; half of this time is lost",
)
_SHOWN = 3


@rule("CMP031", state="preview", fault=Fault.MATRIX_UNITS_UNDERUSED, cases=("CMP-38",))
def vector_on_matrix_cores(job: Job, rows: Rows[VectorOnMatrix]) -> Iterator[Loss]:
    """At most one finding."""
    by_rank: dict[int, int] = {}
    for row in rows:
        by_rank[row.rank] = by_rank.get(row.rank, 0) + row.ns
    found = loss(
        job,
        "vector work on matrix cores",
        LIMIT,
        lambda split: by_rank[split.rank] // steps_of(job, (split.rank,)) if split.rank in by_rank else None,
    )
    if found is None:
        return
    worst = sorted((row for row in rows if row.rank == found.worst.rank), key=lambda row: -row.ns)[:_SHOWN]
    won = round(found.cost_ns * (1 - OF_ALL_VECTOR_CORES.value))
    yield Loss(
        message=f"{found.share:.0%} of the step is vector work on cores of the matrix unit",
        ranks=found.ranks,
        blames=tuple(Blame(row.operator, "operator") for row in worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=won, method="bound: twice as many vector units share the work"),
        confidence=confidence("CMP031"),
        evidence=(
            *found.evidence,
            *(
                Evidence(what=f"{row.operator} on {row.core}", value=float(row.ns), unit="ns", threshold=None,
                         where=f"rank {row.rank}, {row.calls} kernels")
                for row in worst
            ),
        ),
        actions=(
            ONTO_VECTOR_CORES,
        ),
    )  # fmt: skip
