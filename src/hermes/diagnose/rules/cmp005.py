"""Tensors are converted between types.

## What it detects

The time of casts (Cast on Ascend, copies between types on CUDA) per step, against the window and against the time of
all kernels.

## Why it costs you

A cast reads and writes a whole tensor and computes nothing. Mixed precision needs some; operators that fall back to
float32 between others in bfloat16 make pairs of them.

## When it is not a problem

Casts of weights once a step are part of mixed precision with float32 master weights.

## What to do

Keep one type within a module, use fused operators that convert inside, and keep buffers and constants in the type they
are used in.

## How to check

Profile the same step again: time of casts per step falls; the loss stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._layout import Layout, found_layout
from hermes.diagnose.rules._limits import NOISE

LIMIT = Threshold(
    value=0.05, unit="of the time of all kernels", source="case CMP-06; priority `high` of msprof-analyze"
)
FLOOR = NOISE


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    return found_layout(measures, _LAYOUT)


_LAYOUT = Layout(
    code="CMP005",
    kind="cast",
    cause="casts",
    words="casts between types",
    part=lambda row: row.cast_ns,
    limit=LIMIT,
    ascend=Action(
        title="Use fused operators that convert inside",
        do="torch_npu.npu_scaled_masked_softmax, npu_rms_norm or npu_fusion_attention in place of parts that "
        "cast to float32 "
        "and back; give buffers the module's type: buffer.to(torch.bfloat16) once, not in forward.",
        verify="Pairs of Cast around these operators are gone.",
        risk="Check the accuracy: a norm or softmax may need float32 inside, which the fused ones have.",
        source="msprof-analyze, timeline_fusion_ops.yaml",
    ),
    others=Action(
        title="Take needless .float() and .to(dtype) out of forward",
        do="Group the casts of the evidence by stack (capture with with_stack=True); compile norms and softmax "
        "that cast to "
        "float32 and back (torch.compile, or F.rms_norm and F.scaled_dot_product_attention), and keep rotary "
        "tables and masks "
        "in the model's type.",
        verify="Casts per step fall by the pairs that were removed.",
        risk="Check the accuracy of what was in float32 on purpose.",
        source="PyTorch documentation of automatic mixed precision; case CMP-06",
    ),
)

RULE = Rule(code="CMP005", page=__doc__ or "", find=find, cases=("CMP-06", "CMP-17", "CMP-20"))
