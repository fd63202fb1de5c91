"""Kernels leave cores without work, or no part of a core is busy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import Names, Share, message, sentence
from hermes.knowledge.actions import variants
from hermes.knowledge.confidence import confidence
from hermes.knowledge.operators import MATRIX
from hermes.knowledge.vendor_cures import OF_ASCEND
from hermes.model.advice_fit import ANY, Fit
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Evidence, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.10, unit="of the time of all kernels", source="case CMP-25; operator bound check of msprof-analyze"
)
FLOOR = DOUBT


@rule(
    "CMP001",
    state="preview",
    fault=Fault.IDLE_CORES,
    cases=("CMP-12", "CMP-25", "CMP-13", "CMP-33", "CMP-39", "CMP-42"),
)
def idle_cores(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of kernels that leave cores or pipes idle."""
    every = sum(row.ns for row in ops)
    idle, slack = (sum(part) for part in ([_idle(row) for row in ops], _slacks(ops)))
    if not every or idle + slack <= LIMIT.value * every:
        return
    found = operators(job, ops, computes, COST_OF_CORES, FLOOR, _lost)
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
        for what, ns in ((NO_BLOCK, idle), (NO_PIPE, slack))
    )
    yield Loss(
        message=leave_idle(share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(low_ns=0, high_ns=found.cost_ns, method=at_most(when=ALL_BUSY)),
        confidence=confidence("CMP001.idle_cores"),
        evidence=(*found.evidence, *parts, *shown(worst, _lost)),
        # How much fusion or tuning would save is not known, so nothing is replayed.
        actions=tuple(replace(one, title=more_work(operators=named(worst))) for one in _MORE_WORK),
    )


def _idle(row: OperatorCost) -> float:
    return 0.0 if row.kind in MATRIX else float(row.losses.blocks_ns or 0)


def _slacks(ops: Rows[OperatorCost]) -> list[float]:
    return [_lost(row) - _idle(row) for row in ops]


def _lost(row: OperatorCost) -> float:
    return 0.0 if row.kind in MATRIX else float((row.losses.blocks_ns or 0) + (row.losses.pipe_ns or 0))


COST_OF_CORES = sentence("cmp001.cost_of_cores")
ALL_BUSY = sentence("cmp001.all_busy")
_MORE_WORK = variants(
    "cmp001.more_work",
    {
        "_ascend": OF_ASCEND,
        "_torch": Fit(frameworks=("pytorch",), unless=("torch.compile",)),
        "": ANY,
    },
    title=ALL_BUSY,
    source="msprof-analyze, aicore_performance.yaml and block dimension check",
    cases=("CMP-25",),
)
NO_BLOCK = sentence("cmp001.no_block")
NO_PIPE = sentence("cmp001.no_pipe")


@message("cmp001.leave_idle")
def leave_idle(*, share: Share) -> None:
    """Kernels leave cores of the chip idle."""


@message("cmp001.more_work")
def more_work(*, operators: Names) -> None:
    """To give operators more work at once."""
