"""Rows are gathered by index and added up by index.

## What it detects

Operators that read rows by index (gather, index, index_select, embedding) and that add rows where indices say
(scatter_add, index_add, index_put, the backward of an embedding), together more than a tenth of the step, a fifth of
that in those that add.

## Why it costs you

Messages on a graph that are made for each edge, or rows of a table for each token, are written out and read again
before they are summed; the sums go to addresses in no order, and equal indices wait for each other.

## When it is not a problem

When the indices change the rows themselves, as the dispatch of tokens to experts does, and each is used once.

## What to do

Sum on a graph by a product with the sparse matrix of its edges: it reads each row where it is and writes the sum once.
Sort indices before they are scattered. Where a batch reads few rows of a large table, its gradient costs more than
the sums do: CMP016.

## How to check

Profile the same step again: a sparse product takes the place of gathering and scattering, and memory falls by the
messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.knowledge.confidence import confidence
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Gain, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, operators, shown
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.10, unit="of window", source="docs/evidence/cmp015.md")
ADDING = Limit(value=0.2, unit="of it adds rows up", source="docs/evidence/cmp015.md")
MOST = Limit(value=0.8, unit="of it is won, at most", source="docs/evidence/cmp015.md")
_KINDS = ("indexing", "embedding")
_ADDS = re.compile(r"scatter_?(nd)?_?(add|reduce)|index_?(add|put)|embedding\w*(backward|grad)", re.IGNORECASE)


@rule("CMP015", state="preview", fault=Fault.ROWS_BY_INDEX, cases=("CMP-42",))
def gather_scatter(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding."""
    found = operators(job, ops, computes, "reading and adding rows by index", LIMIT, _part)
    worst = longest(ops, _part)
    if found is None or sum(row.ns for row in worst if _ADDS.search(row.operator)) < ADDING.value * sum(
        row.ns for row in worst
    ):
        return
    yield Loss(
        message=f"Reading and adding rows by index takes {found.share:.0%} of the step",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=Gain(
            low_ns=0,
            high_ns=round(found.cost_ns * MOST.value),
            method="bound: a sparse product passes once over the rows where five passes were made",
        ),
        confidence=confidence("CMP015"),
        assumed=True,
        evidence=(*found.evidence, *shown(worst, _part)),
        actions=(
            Action(
                title="Sum over edges by a sparse product",
                do="edges = torch.sparse_csr_tensor(rows, columns, weights, (n, n)), made once; out = edges @ x in "
                "place of out.scatter_add_(0, target, x[source]). PyTorch Geometric: adj_t of ToSparseTensor.",
                verify="aten::_sparse_mm or addmm of a sparse matrix takes the place of index and scatter_add.",
                risk="Only where a message is the row of its node times a number; sums in another order.",
                source="PyTorch Geometric: memory-efficient aggregations; documentation of torch.sparse",
            ),
        ),
    )


def _part(row: OperatorCost) -> float:
    return float(row.ns) if row.kind in _KINDS else 0.0
