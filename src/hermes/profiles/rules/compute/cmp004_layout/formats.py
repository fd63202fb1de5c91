"""Finds conversions of tensors between storage formats."""

from __future__ import annotations

from collections.abc import Iterator

from hermes.base.message import sentence
from hermes.knowledge.actions import action
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import NO_INTERNAL_FORMATS, TORCH
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Loss
from hermes.model.job import Job, Rows
from hermes.model.limit import Limit
from hermes.profiles.rules._limits import NOISE
from hermes.profiles.rules.compute.cmp004_layout._layout import Layout, found_layout
from hermes.profiles.rules.rule import rule

LIMIT = Limit(
    value=0.03,
    unit="of the time of all kernels",
    source="case CMP-07, after the guide to general performance issues of MindStudio",
)
FLOOR = NOISE


@rule("CMP004", state="stable", fault=Fault.FORMAT_CONVERSIONS, cases=("CMP-07", "CMP-08", "CMP-10"))
def format_conversion(job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute]) -> Iterator[Loss]:
    """At most one finding, of conversions between storage formats."""
    return found_layout(job, ops, computes, _LAYOUT)


_LAYOUT = Layout(
    kind="format conversion",
    words=sentence("cmp004.formats"),
    part=lambda row: row.conversion_ns,
    limit=LIMIT,
    confidence=confidence("CMP004"),
    fused=NO_INTERNAL_FORMATS,
    others=action("cmp004.channels_last", source="PyTorch tutorial on channels last", fit=TORCH, cases=("CMP-10",)),
)
