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

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import NO_INTERNAL_FORMATS
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._layout import Layout, found_layout
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.03,
    unit="of the time of all kernels",
    source="case CMP-07, after the guide to general performance issues of MindStudio",
)
FLOOR = NOISE


@rule("CMP004", state="stable", fault=Fault.FORMAT_CONVERSIONS, cases=("CMP-07", "CMP-08", "CMP-10"))
def format_conversion(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding."""
    return found_layout(job, ops, computes, _LAYOUT)


_LAYOUT = Layout(
    kind="format conversion",
    words="converting tensors between storage formats",
    part=lambda row: row.conversion_ns,
    limit=LIMIT,
    confidence=confidence("CMP004"),
    fused=NO_INTERNAL_FORMATS,
    others=Action(
        title="Keep tensors in channels last",
        do="model = model.to(memory_format=torch.channels_last) and the same for each input batch.",
        verify="nchwToNhwc and nhwcToNchw kernels are gone.",
        risk="Operators without such a kernel copy.",
        source="PyTorch tutorial on channels last",
    ),
)
