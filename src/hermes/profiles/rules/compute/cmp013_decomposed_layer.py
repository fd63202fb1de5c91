"""A layer is put together from parts where the library has it as one kernel.

## What it detects

RMSNorm, rotary embedding, SwiGLU and attention made of elementwise operators, reductions and softmax, told by names,
shapes and equal numbers of calls. The rule takes what the parts need beyond their longest one, per step; of attention
all that is done to the matrix of scores, forward and backward. Backward passes of the others are not told apart, so
that it is at least that.

## Why it costs you

Every part reads its input from memory and writes its output back. One kernel keeps what lies between in the core.

## When it is not a problem

When the step is bound by something else; when the parts differ from the layer's definition on purpose. Attention is
left out where the program calls the fused operator already, which then takes it apart: for dropout on a processor, or a
mask that no kernel takes.

## What to do

Use the fused operator of the library, or compile the layer.

## How to check

Profile the same step again: the parts are gone, and the fused kernel takes about as long as the longest of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hermes.knowledge.confidence import confidence
from hermes.knowledge.cures import FUSED_LAYERS
from hermes.model.compute_measures import OperatorCost, StepCompute
from hermes.model.fault import Fault
from hermes.model.finding import Action, Loss
from hermes.model.job import Job, Rows
from hermes.model.measures import OperatorTop
from hermes.profiles.measure.compute.patterns import Layer, patterns
from hermes.profiles.rules._compute import faster, longest, named, of_device, operators, shown
from hermes.profiles.rules._host import bound
from hermes.profiles.rules._limits import DOUBT
from hermes.profiles.rules.rule import rule

LIMIT = DOUBT
_FUSED = "_scaled_dot_product_attention_math"
"""What the fused attention calls where none of its kernels takes the case."""


@rule(
    "CMP013",
    state="stable",
    fault=Fault.UNFUSED_LAYERS,
    cases=("CMP-15", "CMP-17", "CMP-18", "CMP-19", "CMP-20", "CMP-21", "CMP-34"),
)
def decomposed_layer(
    job: Job, ops: Rows[OperatorCost], computes: Rows[StepCompute], tops: Rows[OperatorTop]
) -> Iterator[Loss]:
    """At most one finding, of all such layers."""
    fused = any(row.name.endswith(_FUSED) for row in tops)
    found_patterns = [one for one in patterns(ops) if not (fused and one.layer == "attention")]
    share: dict[int, float] = {}
    for pattern in found_patterns:
        total = sum(part.ns for part in pattern.parts)
        share.update({id(part): pattern.saved_ns / total for part in pattern.parts})

    def saved(row: OperatorCost) -> float:
        return row.ns * share.get(id(row), 0.0)

    found = operators(job, ops, computes, "parts of layers beyond one kernel each", LIMIT, saved)
    if found is None:
        return
    worst = longest(ops, saved)
    layers = list(
        dict.fromkeys(one.layer for one in sorted(found_patterns, key=lambda one: (-one.saved_ns, one.layer)))
    )
    written = FUSED_LAYERS if of_device(job, found.ranks).fused else _TORCH
    yield Loss(
        message=f"{' and '.join(layers)} put together from parts cost{'s' if len(layers) == 1 else ''} "
        f"{found.share:.0%} of the step",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        share=found.share,
        gain=bound(job, found, "one kernel takes as long as the longest part, of attention as the products"),
        confidence=confidence("CMP013"),
        evidence=(*found.evidence, *shown(worst, saved)),
        replay=faster(ops, saved),
        actions=tuple(_action(layer, written[layer]) for layer in layers),
    )


def _action(layer: Layer, do: str) -> Action:
    return Action(
        title=f"Use the fused {layer}",
        do=do,
        verify="Its parts are gone from the next profile, and the step is shorter.",
        risk="Check the accuracy: a fused kernel rounds in other places.",
        source="msprof-analyze, timeline_fusion_ops.yaml; PyTorch documentation",
    )


_TORCH: Mapping[Layer, str] = {
    "RMSNorm": "torch.nn.functional.rms_norm(x, (hidden,), weight, eps), or torch.compile of the module",
    "rotary embedding": "torch.compile of the function that applies it, or a kernel of flash-attn or Liger-Kernel",
    "SwiGLU": "torch.compile of the feed-forward module, or Liger-Kernel's SwiGLU",
    "attention": "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask) with the mask that is "
    "added now; attn_implementation='sdpa' in from_pretrained().",
}
