"""Finds copies of tensors into another memory order, and operators whose inputs have different orders."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from hermes.base.message import Name, Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import KEEP_LAYOUTS, TORCH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Blame, Evidence, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.model.tensor_measures import MixedLayouts
from hermes.profiles.rules._compute import short
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import fact
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.compute.cmp004_layout._layout import Layout, found_layout
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of the time of all kernels", source="docs/evidence/cmp006.md")
FLOOR = NOISE
_SHOWN = 3


@rule("CMP004", state="stable", fault=Fault.STRIDED_COPIES, cases=("CMP-09", "CMP-10", "CPU-24"))
def transposed_copies(
    job: Job, layouts: Rows[MixedLayouts], ops: Rows[OperatorCost], computes: Rows[StepCompute]
) -> Iterator[Loss]:
    """At most one finding, of transposed copies and of operators with mixed layouts."""

    def part(row: StepCompute) -> int:
        return row.transpose_ns + sum(one.beyond_ns // one.steps for one in _mixed(layouts, row.rank))

    for finding in found_layout(job, ops, computes, replace(_LAYOUT, part=part)):
        mixed = _mixed(layouts, _worst(layouts, finding.ranks))
        if not mixed:
            yield finding
            continue
        yield replace(
            finding,
            message=in_orders(share=percents(finding.share)),
            blames=tuple(
                dict.fromkeys((*finding.blames, *(Blame(short(one.operator), "operator") for one in mixed[:_SHOWN])))
            ),
            evidence=(*finding.evidence, *(_beyond(job, one) for one in mixed[:_SHOWN])),
        )


def _mixed(layouts: Rows[MixedLayouts], rank: int) -> list[MixedLayouts]:
    """The operators of a rank that lose time by mixed orders of their inputs, the largest loss first."""
    rows = (one for one in layouts.of(rank) if one.beyond_ns)
    return sorted(rows, key=lambda one: (-one.beyond_ns, one.operator, one.shapes))


def _worst(layouts: Rows[MixedLayouts], ranks: Collection[int]) -> int:
    return max(ranks, key=lambda rank: (sum(one.beyond_ns for one in _mixed(layouts, rank)), -rank))


def _beyond(job: Job, one: MixedLayouts) -> Evidence:
    what = beyond_one_order(operator=one.operator, shapes=short(one.shapes))
    return fact(job, one.rank, what, one.beyond_ns / one.steps, "ns a step")


_LAYOUT = Layout(
    kind="transpose",
    words=sentence("cmp004.transpositions"),
    part=lambda row: row.transpose_ns,
    limit=LIMIT,
    confidence=confidence("CMP004.transposed_copies"),
    fused=KEEP_LAYOUTS,
    others=action(
        "cmp004.choose_layouts",
        source="PyTorch performance tuning guide; case CMP-09",
        fit=TORCH,
        cases=("CMP-09",),
    ),
)


@message("cmp004.in_orders")
def in_orders(*, share: Share) -> None:
    """Inputs of operators are also in different memory orders."""


@message("cmp004.beyond_one_order")
def beyond_one_order(*, operator: Name, shapes: Name) -> None:
    """The time that an operator loses by mixed orders of its inputs."""
