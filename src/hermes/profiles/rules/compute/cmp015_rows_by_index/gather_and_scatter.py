"""Finds rows that are gathered by index and added up by index, as along the edges of a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.base.message import Share, message, sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import TORCH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules.gain_messages import at_most
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.10, unit="of window", source="docs/evidence/cmp015.md")
ADDING = Limit(value=0.2, unit="of this time adds rows", source="docs/evidence/cmp015.md")
MOST = Limit(value=0.8, unit="of this time is won at most", source="docs/evidence/cmp015.md")
_KINDS = ("indexing", "embedding")
_ADDS = re.compile(r"scatter_?(nd)?_?(add|reduce)|index_?(add|put)|embedding\w*(backward|grad)", re.IGNORECASE)


@rule("CMP015", state="preview", fault=Fault.ROWS_BY_INDEX, cases=("CMP-42",))
def gather_scatter(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of rows gathered and added by index."""
    found = operators(job, ops, computes, COST_OF_EDGES, LIMIT, _part)
    worst = longest(ops, _part)
    if found is None or sum(row.ns for row in worst if _ADDS.search(row.operator)) < ADDING.value * sum(
        row.ns for row in worst
    ):
        return
    yield Loss(
        message=rows_by_index(share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=0,
            high_ns=round(found.cost_ns * MOST.value),
            method=at_most(when=ONE_PASS),
        ),
        confidence=confidence("CMP015"),
        assumed=True,
        evidence=(*found.evidence, *shown(worst, _part)),
        actions=(_SPARSE,),
    )


def _part(row: OperatorCost) -> float:
    return float(row.ns) if row.kind in _KINDS else 0.0


COST_OF_EDGES = sentence("cmp015.cost_of_edges")
ONE_PASS = sentence("cmp015.one_pass")
_SPARSE = action(
    "cmp015.sum_over_edges",
    source="PyTorch Geometric: memory-efficient aggregations; documentation of torch.sparse",
    fit=TORCH,
)


@message("cmp015.rows_by_index")
def rows_by_index(*, share: Share) -> None:
    """Rows are gathered and added by index."""
