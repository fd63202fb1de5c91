"""Tensors are converted between storage formats.

## What it detects

The time of kernels that only change how a tensor lies in memory (TransData between ND, NZ and NC1HWC0 on Ascend; NCHW
to NHWC inside cuDNN), per step, against the window and against the time of all kernels.

## Why it costs you

Each conversion reads and writes a whole tensor and computes nothing. Operators that want different formats force them
again and again.

## When it is not a problem

Convolutions may gain more from their format than the conversions cost: only a run with the other setting tells.

## What to do

On Ascend, switch internal formats off, or convert frozen weights once; on CUDA, keep model and input in channels last.

## How to check

Profile the same step again: TransData (or nchwToNhwc) is gone from the table of kernels, and the step is shorter.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermes.diagnose.finding import Action, Finding
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._layout import Layout, found_layout
from hermes.diagnose.rules._limits import NOISE

LIMIT = Threshold(
    value=0.03,
    unit="of the time of all kernels",
    source="case CMP-07, after the guide to general performance issues of MindStudio",
)
FLOOR = NOISE


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    return found_layout(measures, _LAYOUT)


_LAYOUT = Layout(
    code="CMP004",
    kind="format conversion",
    cause="format conversions",
    words="converting tensors between storage formats",
    part=lambda row: row.conversion_ns,
    limit=LIMIT,
    ascend=Action(
        title="Switch internal formats off",
        do="torch_npu.npu.config.allow_internal_format = False before the model is built; for frozen weights "
        "convert once: "
        "weight.data = torch_npu.npu_format_cast(weight.data, 29).",
        verify="TransData no longer appears, and the step as a whole is shorter.",
        risk="Convolutions may be slower without their format: measure both.",
        source="torch_npu, npu_config.py; MindStudio, general performance issues",
    ),
    others=Action(
        title="Keep tensors in channels last",
        do="model = model.to(memory_format=torch.channels_last) and the same for each input batch.",
        verify="nchwToNhwc and nhwcToNchw kernels are gone.",
        risk="Operators without such a kernel copy.",
        source="PyTorch tutorial on channels last",
    ),
)

RULE = Rule(code="CMP004", page=__doc__ or "", find=find, cases=("CMP-07", "CMP-08", "CMP-10"))
