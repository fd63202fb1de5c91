"""Finds layers that the program builds from parts, though the library has each layer as one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.base.message import Count, Share, Text, message, sentence
from hermes.knowledge.confidence import confidence
from hermes.knowledge.vendor_cures import FUSED_LAYERS
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.step_measures import OperatorTop
from hermes.profiles.measure.compute.decomposed_layers import Layer, patterns
from hermes.profiles.rules._compute import faster, longest, named, of_device, operators, shown
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
    written = FUSED_LAYERS if of_device(job, found.ranks).fused else _TORCH
    yield Loss(
        message=from_parts(n=len(layers), layers=" and ".join(layers), share=percents(found.share)),
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, AS_LONGEST_PART),
        confidence=confidence("CMP002.layers"),
        evidence=(*found.evidence, *shown(worst, saved)),
        replay=faster(ops, saved),
        actions=tuple(_action(layer, written[layer]) for layer in layers),
    )


def _action(layer: Layer, do: str) -> Action:
    return Action(
        title=f"Use the fused {layer}",
        do=do,
        verify=USE_FUSED_VERIFY,
        risk=USE_FUSED_RISK,
        source="msprof-analyze, timeline_fusion_ops.yaml; PyTorch documentation",
    )


_TORCH: Mapping[Layer, str] = {
    "RMSNorm": "torch.nn.functional.rms_norm(x, (hidden,), weight, eps), or torch.compile of the module",
    "rotary embedding": "torch.compile of the function that applies it, or a kernel of flash-attn or Liger-Kernel",
    "SwiGLU": "torch.compile of the feed-forward module, or Liger-Kernel's SwiGLU",
    "attention": "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask) with the mask that is "
    "added now; attn_implementation='sdpa' in from_pretrained().",
}


COST_OF_LAYERS = sentence("cmp002.cost_of_layers")
AS_LONGEST_PART = sentence("cmp002.as_longest_part")
USE_FUSED_VERIFY = sentence("cmp002.use_fused_verify")
USE_FUSED_RISK = sentence("cmp002.use_fused_risk")


@message("cmp002.from_parts")
def from_parts(*, n: Count, layers: Text, share: Share) -> None:
    """Layers are built from parts."""
