"""Operators run on AI CPU instead of on AI Core.

## What it detects

The rule counts the time of kernels on AI CPU per step, against the window and against the time of all kernels. Ascend
only.

## Why it costs you

AI CPU is a few Arm cores on the chip. The Arm cores need milliseconds for work that takes AI Core microseconds, and
later tasks of the stream wait.

## When it is not a problem

Operators on AI CPU are no problem once at the start, or in a step with evaluation. If an operator has no AI Core form
at all, you can only avoid the operator.

## What to do

Change the type that keeps the operator off AI Core (int16, int64, complex, float64). Or replace the operator: use
torch.where or a product in place of indexing with a mask, and fixed shapes in place of nonzero and unique. Or move the
work to the loader.

## How to check

Profile the same step again: no kernel of unit AI_CPU is left, or far less of its time.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import NPU, OF_ASCEND
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import lost, of_operators
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.01,
    unit="of the time of all kernels",
    source="cases CMP-01 and CMP-02, after aicpu_rules.yaml of msprof-analyze",
)


@rule("CMP003", state="stable", fault=Fault.AI_CPU_OPERATORS, cases=("CMP-01", "CMP-02", "CMP-31"))
def ai_cpu(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of operators that run on AI CPU."""
    found = lost(job, computes, COST, lambda row: row.ai_cpu_ns, LIMIT, NOISE)
    if found is None:
        return
    yield of_operators(
        job, ops, found, _there,
        title=spent(share=percents(found.share)),
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=NEXT_TO_NOTHING)),
        confidence=confidence("CMP003"),
        actions=_KEEP,
    )  # fmt: skip


def _there(row: OperatorCost) -> float:
    return float(row.ai_cpu_ns or 0)


COST = sentence("cmp003.cost")
NEXT_TO_NOTHING = sentence("cmp003.next_to_nothing")
_KEEP = variants(
    "cmp003.keep_on_ai_core",
    {"_torch": NPU, "": OF_ASCEND},
    source="ModelArts best practice, replacing AI CPU operators; msprof-analyze, aicpu_rules.yaml",
    cases=("CMP-01", "CMP-31"),
)


@message("cmp003.spent")
def spent(*, share: Share) -> None:
    """Operators on AI CPU take a share of the time."""
