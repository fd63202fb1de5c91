"""A causal mask is made as a tensor in each step and handed to attention.

## What it detects

Attention in one kernel (scaled_dot_product_attention, CANN's FlashAttentionScore) that reads a square mask as long as
its queries, where `triu` or `tril` makes a triangle of the mask's last two sizes in the same steps. What is counted are
all operators that make or convert tensors of the mask's shape, and the part of attention, forward and backward, that a
kernel which is told that the mask is causal need not do. Together more than a twentieth of the step. It needs shapes.

Nothing is said of attention that is put together from parts (CMP013), of a mask that is made before the capture, and
where shapes tell that more than a triangle is in it: both triangles, two squares that are joined, lengths of sequences
or an index that are written into it. On Ascend a mask of 2,048 x 2,048 is taken for the compressed one.

## Why it costs you

A mask has a number for each pair of places, and of each head and sequence where it is made for all: more than
queries, keys and values together have. It is written several times over, converted where it is boolean, and read in
each pass; and a kernel cannot know that half of it hides everything, and works those scores out, too.

## When it is not a problem

When the mask is not causal after all: contents are not recorded. A window, a prefix that all see, or padding need a
mask, or another operator. How much of attention is saved depends on the kernel: that of a processor leaves out whole
blocks of 512 keys, so that short sequences win little more than the mask.

## What to do

Say is_causal=True and hand over no mask; on Ascend sparse_mode=2 with the one compressed mask. Where a mask has to
stay, make it once.

## How to check

Profile the same step again: `triu`, and what fills and converts the mask, is gone, and attention has no input of that
shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hermes.analyze.compute_measures import OperatorCost
from hermes.analyze.masks import TriangleMask, triangle, triangle_masks
from hermes.diagnose.finding import Action, Evidence, Finding, Gain
from hermes.diagnose.rule import Measures, Rule, Threshold
from hermes.diagnose.rules._component import steps_of
from hermes.diagnose.rules._compute import faster, fresh, longest, named, operators, shown, vendor
from hermes.diagnose.rules._host import has_device, on

LIMIT = Threshold(value=0.05, unit="of window", source="docs/evidence/cmp020.md")
LEAST = Threshold(value=0.7, unit="of what makes the mask is won, at least", source="docs/evidence/cmp020.md")
HALF = Threshold(value=0.5, unit="of attention is won, at most", source="docs/evidence/cmp020.md")
_BLOCK = 512
"""Keys that a kernel leaves out together, at most: `docs/evidence/cmp020.md`."""
_READ = 0.16
"""What reading a large mask is of attention on a processor, at most: `docs/evidence/cmp020.md`."""
_READ_SMALL = 0.07
"""The same of a mask of up to 512 x 512 numbers."""


class _Part(NamedTuple):
    """What is won of an operator, at least and at most, and whether it makes the mask."""

    least: float
    most: float
    makes: bool


def find(measures: Measures) -> Iterator[Finding]:
    """At most one finding."""
    masks = [one for one in triangle_masks(measures.compute.operators) if _each_step(measures, one)]
    parts = _parts(measures, masks)

    def part(row: OperatorCost) -> float:
        return row.ns * parts[id(row)].most if id(row) in parts else 0.0

    def saved(row: OperatorCost) -> float:
        return row.ns * parts[id(row)].least if id(row) in parts else 0.0

    def making(row: OperatorCost) -> float:
        return float(row.ns) if id(row) in parts and parts[id(row)].makes else 0.0

    found = operators(measures, "causal masks and what they keep attention from leaving out", LIMIT, part)
    if found is None:
        return
    worst, rank = longest(measures, part), found.worst.rank
    least = sum(map(saved, worst)) / sum(map(part, worst))
    largest = masks[0]
    yield Finding(
        code="CMP020",
        layer="compute",
        cause="causal masks made as tensors",
        title=f"A causal mask of {' x '.join(map(str, largest.shape))} that is made in each step, and read by "
        f"attention, costs {found.share:.0%} of it{on(measures, found)}",
        ranks=found.ranks,
        blames=named(worst),
        cost_ns=found.cost_ns,
        calls=found.calls,
        fresh=fresh(measures, rank, making, _filled(measures, masks, rank)),
        share=found.share,
        gain=Gain(
            low_ns=round(found.cost_ns * least),
            high_ns=found.cost_ns,
            method="no mask is made or read, and attention leaves out whole blocks of what it hides",
        ),
        confidence=round(0.6 * measures.certainty, 2),
        evidence=(
            *found.evidence,
            Evidence(
                what="making masks",
                value=round(sum(map(making, worst)) / sum(map(part, worst)), 6),
                unit="of that",
                threshold=None,
                where=f"{_made(measures, largest):.3g} a step of {' x '.join(map(str, largest.shape))}",
            ),
            *shown(worst, part),
        ),
        replay=faster(measures, saved),
        actions=_NPU if vendor(measures, found.ranks) == "ascend" else _TORCH,
    )


_KEPT = Action(
    title="Make a mask that has to stay once",
    do="self.register_buffer('mask', mask, persistent=False) for the longest sequence, in the type that attention "
    "reads, and self.mask[:length, :length] in each step; one for all layers, heads and sequences, which broadcasts.",
    verify="triu or tril, and what fills and converts the mask, is gone from the next profile.",
    risk="Attention still reads the mask, and works out what it hides.",
    source="PyTorch documentation of torch.nn.Module.register_buffer and scaled_dot_product_attention",
)
_TORCH = (
    Action(
        title="Say that attention is causal",
        do="functional.scaled_dot_product_attention(q, k, v, is_causal=True), without attn_mask. On a device that also "
        "allows flash attention, which takes no mask.",
        verify="Attention has no input of the mask's shape, and triu or tril is gone.",
        risk="Only where the mask is a plain triangle: a window, padding that queries may see, or a prefix is lost "
        "without an error. The triangle begins at the upper left: with a cache of keys, queries and keys differ in "
        "number, and it hides others. Check the loss of a few steps, which may differ in the last digits.",
        source="PyTorch documentation of torch.nn.functional.scaled_dot_product_attention, is_causal",
    ),
    _KEPT,
)
_NPU = (
    Action(
        title="Hand over the compressed mask",
        do="torch_npu.npu_fusion_attention(…, atten_mask=mask, sparse_mode=2)[0], with mask = torch.triu(torch.ones("
        "2048, 2048, dtype=torch.bool, device='npu'), 1) made once; with scaled_dot_product_attention is_causal=True.",
        verify="FlashAttentionScore reads a mask of 2048 x 2048 however long sequences are, and takes less time.",
        risk="Only where the mask is a plain triangle that begins at the upper left; sparse_mode=3 is that of the "
        "lower right. True means masked out here, in PyTorch's mask kept.",
        source="torch_npu documentation of npu_fusion_attention, sparse_mode; MindSpeed, generate-mask.md",
    ),
    _KEPT,
)


def _made(measures: Measures, mask: TriangleMask) -> float:
    """Triangles a step."""
    return sum(row.calls / steps_of(measures, row.ranks) for row in mask.made if triangle(row))


def _each_step(measures: Measures, mask: TriangleMask) -> bool:
    return _made(measures, mask) >= 1


def _parts(measures: Measures, masks: list[TriangleMask]) -> Mapping[int, _Part]:
    """By the identity of a row of operators."""
    found: dict[int, _Part] = {}
    for mask in masks:
        length, small = mask.shape[-1], math.prod(mask.shape) <= _BLOCK**2
        skipped = max(0.0, (1 - _BLOCK / length) / 2)
        for row in mask.read:
            device = any(has_device(measures, rank) for rank in row.ranks)
            most = HALF.value if device else min(HALF.value, skipped + (_READ_SMALL if small else _READ))
            found[id(row)] = _Part(skipped, most, makes=False)
        found.update((id(row), _Part(LEAST.value, 1.0, makes=True)) for row in mask.made)
    return found


def _filled(measures: Measures, masks: list[TriangleMask], rank: int) -> float:
    """Bytes a step of new tensors that are first filled and then cut, as numbers of four bytes."""
    return sum(
        4.0 * math.prod(mask.shape) * row.calls / steps_of(measures, row.ranks)
        for mask in masks
        for row in mask.made
        if rank in row.ranks and row.operator in ("aten::fill_", "aten::zero_")
    )


RULE = Rule(code="CMP020", page=__doc__ or "", find=find, cases=("CMP-16",))
