"""Transposed or strided tensors are copied into order.

## What it detects

The time of kernels that only change the order of a tensor's elements (Transpose, AsStrided, ViewCopy on Ascend; copies
within one type on CUDA) per step, against the window and against the time of all kernels.

## Why it costs you

Such a copy reads with strides, far below the bandwidth of memory, writes a whole tensor and computes nothing.

## When it is not a problem

A copy that makes the next operator faster than it costs, such as one transposition before several products.

## What to do

Choose a layout that needs no turning (attention with BSND or BNSD input as it comes), call contiguous once at the
entrance, and fuse permute with view.

## How to check

Profile the same step again: time of transpositions and strided copies per step falls.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._layout import Layout, found_layout
from hermes.diagnose.rules._limits import NOISE

LIMIT = Threshold(
    value=0.05, unit="of the time of all kernels", source="case CMP-09; priority `high` of msprof-analyze"
)
FLOOR = NOISE


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    return found_layout(measures, _LAYOUT)


_LAYOUT = Layout(
    code="CMP006",
    kind="transpose",
    cause="transpositions and strided copies",
    words="transpositions and strided copies",
    part=lambda row: row.transpose_ns,
    limit=LIMIT,
    ascend=Action(
        title="Choose layouts that need no turning",
        do="npu_fusion_attention(..., input_layout='BSND') as the projection leaves it; "
        "torch_npu.npu_confusion_transpose(x, "
        "perm, shape, transpose_first) for permute with view; contiguous() once where a tensor is used often.",
        verify="Transpose, AsStrided and ViewCopy take less time.",
        risk="A layout touches checkpoints and tensor parallelism.",
        source="msprof-analyze, timeline_fusion_ops.yaml: npu_confusion_transpose",
    ),
    others=Action(
        title="Choose layouts that need no turning",
        do="Find the copies by stack (with_stack=True), and drop contiguous() where the next operator takes "
        "strides; give "
        "attention its tensors as the projection leaves them; torch.compile fuses many into their neighbours.",
        verify="aten::copy_ within one type, and contiguous, take less time.",
        risk="Some operators are slower on strided inputs: compare the step.",
        source="PyTorch performance tuning guide; case CMP-09",
    ),
)

RULE = Rule(code="CMP006", page=__doc__ or "", find=find, cases=("CMP-09", "CMP-10"))
