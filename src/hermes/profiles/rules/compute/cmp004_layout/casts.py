"""Finds conversions of tensors between types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hermes.base.message import sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.cost.tensors import per_tensor
from hermes.knowledge.vendor_cures import FUSED_CASTS, TORCH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._compute import longest, named, per_step, shown
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.compute.cmp004_layout._layout import Layout, found_layout
from hermes.profiles.rules.rule import rule

LIMIT = Limit(value=0.05, unit="of the time of all kernels", source="case CMP-06; priority `high` of msprof-analyze")
FLOOR = NOISE


@rule("CMP004", state="stable", fault=Fault.CASTS, cases=("CMP-06", "CMP-17", "CMP-20", "CMP-08", "IO-12"))
def casts(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of casts between types."""
    for found in found_layout(job, ops, computes, _LAYOUT):
        yield _with_scales(job, ops, computes, _of_wide_batches(ops, found))


def _of_wide_batches(ops: Rows[OperatorCost], found: Loss) -> Loss:
    """The finding, with an action if most casts narrow float64 tensors that the step did not make itself."""
    operators = ops
    casts = [row for row in operators if row.kind == "cast" and not set(row.ranks).isdisjoint(found.ranks)]
    narrowed = [row for row in casts if _tensors(row)[:1] != _wide(row)[:1] and _wide(row)]
    computed = {shape for row in operators if row not in narrowed for shape, _ in _wide(row)}
    handed = [row for row in narrowed if computed.isdisjoint(shape for shape, _ in _wide(row))]
    if 2 * sum(row.ns for row in handed) <= sum(row.ns for row in casts):
        return found
    return replace(found, fault=Fault.CASTS_OF_WIDE_BATCHES, actions=(_NARROW, *found.actions))


def _tensors(row: OperatorCost) -> list[tuple[str, str]]:
    """Shape and type of the inputs with a shape: single numbers are doubles in Python."""
    return [
        (shape, kind)
        for shape, kind in zip(per_tensor(row.shapes), per_tensor(row.dtypes.lower()), strict=False)
        if shape
    ]


def _wide(row: OperatorCost) -> list[tuple[str, str]]:
    return [(shape, kind) for shape, kind in _tensors(row) if kind in _DOUBLES]


def _with_scales(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], found: Loss) -> Loss:
    """The finding, with the cost of scaling numbers that were just unpacked from int8."""
    codes = {
        (row.ranks, row.calls, per_tensor(row.shapes)[0])
        for row in ops
        if row.kind == "cast" and not _INT8.isdisjoint(per_tensor(row.dtypes.lower()))
    }

    def scales(row: OperatorCost) -> float:
        own = (row.ranks, row.calls, per_tensor(row.shapes)[0])
        return float(row.ns) if row.kind == "elementwise" and _SCALES.search(row.operator) and own in codes else 0.0

    rank = min(found.ranks)
    rows, extra = longest(ops, scales), round(per_step(job, ops, computes, scales).get(rank, 0.0))
    if not extra:
        return found
    return replace(
        found,
        fault=Fault.UNPACKING,
        blames=(*found.blames, *named(rows)),
        cost_ns=found.cost_ns + extra,
        share=found.share * (1 + extra / found.cost_ns),
        gain=replace(
            found.gain,
            low_ns=found.gain.low_ns + (extra if found.gain.low_ns else 0),
            high_ns=found.gain.high_ns + extra,
        ),
        evidence=(*found.evidence, *shown(rows, scales)),
        actions=(_ONCE, *found.actions),
    )


_DOUBLES = ("double", "float64", "fp64", "torch.float64")
_NARROW = action(
    "cmp004.hand_over", source="case IO-12; NumPy documentation: data types", fit=TORCH, whole=True
)  # fmt: skip
_INT8 = frozenset(("signed char", "int8", "torch.int8"))
_SCALES = re.compile(r"(^|::)(mul|div|muls|realdiv)_?$", re.IGNORECASE)
_ONCE = action("cmp004.unpack_once", source="case CMP-08", fit=TORCH, whole=True)


_LAYOUT = Layout(
    kind="cast",
    words=sentence("cmp004.casts"),
    part=lambda row: row.cast_ns,
    limit=LIMIT,
    confidence=confidence("CMP004.casts"),
    fused=FUSED_CASTS,
    others=action(
        "cmp004.make_tensors",
        source="PyTorch documentation of automatic mixed precision; case CMP-06",
        fit=TORCH,
        cases=("CMP-06", "CMP-17"),
    ),
)
