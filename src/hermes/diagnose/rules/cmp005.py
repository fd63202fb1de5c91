"""Tensors are converted between types.

## What it detects

The time of casts (Cast on Ascend, copies between types on CUDA) per step, against the window and against the time of
all kernels. Where int8 is made into floating point, as of weights that are kept in 8 bits, products by scales on the
same shape that are called as often belong to it. Where it is most of all casts that float64 is made into something
narrower, and no other operator works on float64 of that shape, batches came so, or tables that the model keeps.

## Why it costs you

A cast reads and writes a whole tensor and computes nothing. Mixed precision needs some; operators that fall back to
float32 between others in bfloat16 make pairs of them.

## When it is not a problem

Casts of weights once a step are part of mixed precision with float32 master weights. Where memory has no room for
unpacked weights, unpacking is what one pays for it.

## What to do

Keep one type within a module, use fused operators that convert inside, and keep buffers and constants in the type they
are used in. Let workers hand over the type that the step computes in, or bytes. Unpack weights that do not learn once,
before training.

## How to check

Profile the same step again: time of casts per step falls; the loss stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hermes.analyze.compute_measures import OperatorCost
from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._compute import fresh, longest, named, per_step, shown
from hermes.diagnose.rules._layout import Layout, found_layout
from hermes.diagnose.rules._limits import NOISE

LIMIT = Threshold(
    value=0.05, unit="of the time of all kernels", source="case CMP-06; priority `high` of msprof-analyze"
)
FLOOR = NOISE


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    for found in found_layout(measures, _LAYOUT):
        yield _with_scales(measures, _of_wide_batches(measures, found))


def _of_wide_batches(measures: Measures, found: Finding) -> Finding:
    """The finding, with what to do where most casts narrow float64 that the step did not make itself."""
    operators = measures.compute.operators
    casts = [row for row in operators if row.kind == "cast" and not set(row.ranks).isdisjoint(found.ranks)]
    narrowed = [row for row in casts if _tensors(row)[:1] != _wide(row)[:1] and _wide(row)]
    computed = {shape for row in operators if row not in narrowed for shape, _ in _wide(row)}
    handed = [row for row in narrowed if computed.isdisjoint(shape for shape, _ in _wide(row))]
    if 2 * sum(row.ns for row in handed) <= sum(row.ns for row in casts):
        return found
    return replace(found, cause="casts of wide batches", actions=(_NARROW, *found.actions))


def _tensors(row: OperatorCost) -> list[tuple[str, str]]:
    """Shape and type of the inputs that have a shape: single numbers are doubles to Python."""
    return [
        (shape, kind)
        for shape, kind in zip(row.shapes.split(";"), row.dtypes.lower().split(";"), strict=False)
        if shape
    ]


def _wide(row: OperatorCost) -> list[tuple[str, str]]:
    return [(shape, kind) for shape, kind in _tensors(row) if kind in _DOUBLES]


def _with_scales(measures: Measures, found: Finding) -> Finding:
    """The finding with what scales numbers that were just unpacked from int8."""
    codes = {
        (row.ranks, row.calls, row.shapes.split(";")[0])
        for row in measures.compute.operators
        if row.kind == "cast" and not _INT8.isdisjoint(row.dtypes.lower().split(";"))
    }

    def scales(row: OperatorCost) -> float:
        own = (row.ranks, row.calls, row.shapes.split(";")[0])
        return float(row.ns) if row.kind == "elementwise" and _SCALES.search(row.operator) and own in codes else 0.0

    rank = min(found.ranks)
    rows, extra = longest(measures, scales), round(per_step(measures, scales).get(rank, 0.0))
    if not extra:
        return found
    more = per_step(measures, lambda row: row.calls if scales(row) else 0.0).get(rank, 0.0)
    part = fresh(measures, rank, scales)
    return replace(
        found,
        cause="unpacking of 8-bit numbers",
        blames=(*found.blames, *named(rows)),
        cost_ns=found.cost_ns + extra,
        share=found.share * (1 + extra / found.cost_ns),
        calls=None if found.calls is None else found.calls + more,
        fresh=None if found.fresh is None or part is None else min(1.0, found.fresh + part),
        gain=replace(
            found.gain,
            low_ns=found.gain.low_ns + (extra if found.gain.low_ns else 0),
            high_ns=found.gain.high_ns + extra,
        ),
        evidence=(*found.evidence, *shown(rows, scales)),
        actions=(_ONCE, *found.actions),
    )


_DOUBLES = ("double", "float64", "fp64", "torch.float64")
_NARROW = Action(
    title="Hand over the type that the step computes in",
    do="In the dataset: torch.from_numpy(a.astype(numpy.float32)), or the bytes as they were read, x = x.float() / 255 "
    "in the step. What NumPy, pandas and JSON read is float64. Tables that the model keeps: "
    "self.register_buffer('table', table.float()).",
    verify="The casts are gone, and batches have half the bytes, or an eighth.",
    risk="none where the step computes in float32 anyway.",
    source="case IO-12; NumPy documentation: data types",
)
_INT8 = frozenset(("signed char", "int8", "torch.int8"))
_SCALES = re.compile(r"(^|::)(mul|div|muls|realdiv)_?$", re.IGNORECASE)
_ONCE = Action(
    title="Unpack weights that do not learn once",
    do="self.weight = codes.to(dtype) * scales in __init__, or after loading, and F.linear(x, self.weight) in forward; "
    "where memory has no room for all, keep some layers unpacked.",
    verify="Neither the casts nor the products by scales are left in a step.",
    risk="Two to four times the memory of the packed weights.",
    source="case CMP-08",
)


_LAYOUT = Layout(
    code="CMP005",
    kind="cast",
    cause="casts",
    words="casts between types",
    part=lambda row: row.cast_ns,
    limit=LIMIT,
    ascend=Action(
        title="Use fused operators that convert inside",
        do="torch_npu.npu_scaled_masked_softmax, npu_rms_norm or npu_fusion_attention in place of parts that cast to "
        "float32 and back; give buffers the module's type: buffer.to(torch.bfloat16) once, not in forward.",
        verify="Pairs of Cast around these operators are gone.",
        risk="Check the accuracy: a norm or softmax may need float32 inside, which the fused ones have.",
        source="msprof-analyze, timeline_fusion_ops.yaml",
    ),
    others=Action(
        title="Take needless .float() and .to(dtype) out of forward",
        do="Group the casts of the evidence by stack (capture with with_stack=True); compile norms and softmax that "
        "cast to float32 and back (torch.compile, or F.rms_norm and F.scaled_dot_product_attention), and keep rotary "
        "tables and masks in the model's type.",
        verify="Casts per step fall by the pairs that were removed.",
        risk="Check the accuracy of what was in float32 on purpose.",
        source="PyTorch documentation of automatic mixed precision; case CMP-06",
    ),
)

RULE = Rule(code="CMP005", page=__doc__ or "", find=find, cases=("CMP-06", "CMP-17", "CMP-20", "CMP-08", "IO-12"))
