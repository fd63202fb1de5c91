"""Operators run on AI CPU instead of on AI Core.

## What it detects

The time of kernels on AI CPU per step, against the window and against the time of all kernels. Ascend only.

## Why it costs you

AI CPU are a few Arm cores on the chip. What AI Core does in microseconds takes them milliseconds, and tasks behind
it in the stream wait.

## When it is not a problem

Once at the start, or in a step with evaluation. Operators that have no AI Core form at all can only be avoided.

## What to do

Change the type that keeps the operator off AI Core (int16, int64, complex, float64), replace it (indexing with a mask
by torch.where or a product, nonzero and unique by fixed shapes), or move the work to the loader.

## How to check

Profile the same step again: no kernel of unit AI_CPU is left, or far less of its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import lost, of_operators
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.01,
    unit="of the time of all kernels",
    source="cases CMP-01 and CMP-02, after aicpu_rules.yaml of msprof-analyze",
)


@rule("CMP003", state="stable", fault=Fault.AI_CPU_OPERATORS, cases=("CMP-01", "CMP-02", "CMP-31"))
def ai_cpu(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding."""
    found = lost(job, computes, "AI CPU", lambda row: row.ai_cpu_ns, LIMIT, NOISE)
    if found is None:
        return
    yield of_operators(
        job, ops, found, _there,
        title=f"{found.share:.0%} of the step is spent in operators on AI CPU",
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method="bound: AI Core does the same in next to no time"),
        confidence=confidence("CMP003"),
        actions=(
            Action(
                title="Keep these operators on AI Core",
                do='`hermes sql PATH "select type, input_dtypes, input_shapes, sum(dur_ns) from kernel where unit = '
                "'ai_cpu' group by all order by 4 desc\"` lists them; convert int16, int64 and float64 inputs to int32 "
                "or float32, and replace x[mask] = v by torch.where(mask, v, x).",
                verify="unit 'ai_cpu' no longer appears in the table of kernels.",
                risk="int32 ends at 2^31; float32 holds 24 bits of an integer; where makes a new tensor.",
                source="ModelArts best practice, replacing AI CPU operators; msprof-analyze, aicpu_rules.yaml",
            ),
        ),
    )  # fmt: skip


def _there(row: OperatorCost) -> float:
    return float(row.ai_cpu_ns or 0)
