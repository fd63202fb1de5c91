"""Finds layers that the program builds from parts, though the library has each layer as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Count, Message, Messages, Share, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import FUSED_LAYERS, NPU, TORCH
from hermes.model.advice_fit import Fit
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.step_measures import OperatorTop
from hermes.profiles.measure.compute.decomposed_layers import Layer, patterns
from hermes.profiles.rules._compute import faster, longest, named, operators, shown
from hermes.profiles.rules._cost_by_rank import percents
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT
_FUSED = "_scaled_dot_product_attention_math"
"""The operator that fused attention calls if none of its kernels supports the case."""


@rule(
    "CMP002",
    state="stable",
    fault=Fault.UNFUSED_LAYERS,
    cases=("CMP-15", "CMP-17", "CMP-18", "CMP-19", "CMP-20", "CMP-21", "CMP-34"),
)
def decomposed_layer(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], tops: Rows[OperatorTop]
) -> Iterator[Loss]:
    """At most one finding, of all layers built from parts."""
    fused = any(row.name.endswith(_FUSED) for row in tops)
    found_patterns = [one for one in patterns(ops) if not (fused and one.layer == "attention")]
    share: dict[int, float] = {}
    for pattern in found_patterns:
        total = sum(part.ns for part in pattern.parts)
        share.update({id(part): pattern.saved_ns / total for part in pattern.parts})

    def saved(row: OperatorCost) -> float:
        return row.ns * share.get(id(row), 0.0)

    found = operators(job, ops, computes, COST_OF_LAYERS, LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    layers = list(
        dict.fromkeys(one.layer for one in sorted(found_patterns, key=lambda one: (-one.saved_ns, one.layer)))
    )
    yield Loss(
        message=from_parts(n=len(layers), layers=[_NAMES[layer] for layer in layers], share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, AS_LONGEST_PART),
        confidence=confidence("CMP002.layers"),
        evidence=(*found.evidence, *shown(worst, saved)),
        replay=faster(ops, saved),
        actions=tuple(one for layer in layers for one in _actions(layer)),
    )


def _actions(layer: Layer) -> Iterator[Action]:
    for do, fit in ((FUSED_LAYERS[layer], NPU), *_WRITTEN[layer]):
        yield Action(
            title=use_fused(layer=_NAMES[layer]),
            do=do,
            verify=USE_FUSED_VERIFY,
            risk=USE_FUSED_RISK,
            source="msprof-analyze, timeline_fusion_ops.yaml; PyTorch documentation",
            fit=fit,
            cases=(_CASES[layer],),
        )


_NAMES: Mapping[Layer, Message] = {
    "RMSNorm": sentence("cmp002.rms_norm"),
    "rotary embedding": sentence("cmp002.rotary"),
    "SwiGLU": sentence("cmp002.swiglu"),
    "attention": sentence("cmp002.attention"),
}
_CASES: Mapping[Layer, str] = {
    "RMSNorm": "CMP-17",
    "rotary embedding": "CMP-18",
    "SwiGLU": "CMP-19",
    "attention": "CMP-15",
}
_WRITTEN: Mapping[Layer, tuple[tuple[Message, Fit], ...]] = {
    "RMSNorm": ((sentence("cmp002.rms_norm_do"), TORCH),),
    "rotary embedding": ((sentence("cmp002.rotary_do"), TORCH),),
    "SwiGLU": ((sentence("cmp002.swiglu_do"), TORCH),),
    "attention": (
        (sentence("cmp002.attention_do_transformers"), Fit(libraries=("transformers",))),
        (sentence("cmp002.attention_do"), TORCH),
    ),
}
"""What to write in place of a layer's parts, and for which jobs."""


COST_OF_LAYERS = sentence("cmp002.cost_of_layers")
AS_LONGEST_PART = sentence("cmp002.as_longest_part")
USE_FUSED_VERIFY = sentence("cmp002.use_fused_verify")
USE_FUSED_RISK = sentence("cmp002.use_fused_risk")


@message("cmp002.from_parts")
def from_parts(*, n: Count, layers: Messages, share: Share) -> None:
    """Layers are built from parts."""


@message("cmp002.use_fused")
def use_fused(*, layer: Message) -> None:
    """To use a layer's fused form."""
