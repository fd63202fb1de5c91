"""Triangles that are made as tensors and handed to attention as its mask: told by names and shapes of operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hermes.analyze.compute_measures import OperatorCost
from hermes.cost.tensors import shape_of
from hermes.knowledge.operators import MATRIX

Shape = tuple[int, ...]

_ATTENTION = ("attention", "attention backward")
_MASK_AT = {
    "_scaled_dot_product_flash_attention_for_cpu": 5,
    "_scaled_dot_product_flash_attention_for_cpu_backward": 8,
    "_scaled_dot_product_efficient_attention": 3,
    "_scaled_dot_product_efficient_attention_backward": 4,
    "_efficient_attention_forward": 3,
    "_efficient_attention_backward": 4,
    "_scaled_dot_product_cudnn_attention": 3,
    "_scaled_dot_product_cudnn_attention_backward": 8,
    "_cudnn_attention_forward": 3,
    "_cudnn_attention_backward": 8,
    "_scaled_dot_product_fused_attention_overrideable": 3,
    "_scaled_dot_product_fused_attention_overrideable_backward": 4,
    "flashattentionscore": 6,
    "flashattentionscoregrad": 7,
}
"""Which input is the mask: PyTorch's `native_functions.yaml`, CANN's operator list."""
_COMPRESSED = (2048, 2048)
"""CANN's mask of sparse modes 2 to 4, however long the queries are: attention skips what it hides."""
_TRIANGLES = ("triu", "tril")
_MAKES = ("elementwise", "copy", "cast", "transpose", "format conversion")
_OTHERS = (*MATRIX, "softmax", "normalisation", "pooling", "embedding", "optimizer")
"""What reads activations, scores and weights, but no mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriangleMask:
    """A square mask of attention, and the operators that make a triangle of its size and that read it.

    `made` are triangles, and all that works on tensors of the mask's shape, or on what is spread to it; `read` are
    calls of attention. They are rows of the operators given, the same objects.
    """

    shape: Shape
    made: tuple[OperatorCost, ...]
    read: tuple[OperatorCost, ...]


def triangle_masks(operators: Sequence[OperatorCost]) -> tuple[TriangleMask, ...]:
    """Every mask that is a triangle as far as shapes tell, the largest first; an operator makes one mask at most.

    Left out are masks that anything else is mixed into: both triangles, an operator of two squares, or of a square and
    a tensor of another shape, as one of lengths or of heads is.
    """
    shapes = {id(row): tuple(shape for text in row.shapes.split(";") if (shape := shape_of(text))) for row in operators}
    read: dict[Shape, list[OperatorCost]] = {}
    for row in operators:
        mask = _mask_of(row) if row.kind in _ATTENTION else None
        if mask:
            read.setdefault(mask, []).append(row)
    elsewhere = {
        _bare(shape)
        for row in operators
        if row.kind in _OTHERS and row.kind not in _ATTENTION
        for shape in shapes[id(row)]
    }
    found, used = [], set[int]()
    for mask in sorted(read, key=lambda shape: (-math.prod(shape), shape)):
        made = [row for row in operators if id(row) not in used and _makes(row, shapes[id(row)], mask, elsewhere)]
        mixed = len({_plain(row) for row in made if _plain(row) in _TRIANGLES}) != 1 or any(
            _mixes(row, shapes[id(row)], mask, elsewhere) for row in operators
        )
        if not mixed:
            used.update(map(id, made))
            found.append(TriangleMask(shape=mask, made=tuple(made), read=tuple(read[mask])))
    return tuple(found)


def triangle(row: OperatorCost) -> bool:
    """Whether an operator cuts a triangle out of a matrix."""
    return _plain(row) in _TRIANGLES


def _mask_of(row: OperatorCost) -> Shape | None:
    """The mask that attention reads, where it is square and as long as the queries."""
    place, texts = _MASK_AT.get(_plain(row), 0), row.shapes.split(";")
    if not 0 < place < len(texts):
        return None
    mask, query = (
        shape_of(texts[place]),
        shape_of(texts[1 if "::" in row.operator and "backward" in row.operator else 0]),
    )
    if not mask or not query or len(mask) < 2 or mask[-1] != mask[-2] or mask[-1] not in query[:-1]:
        return None
    return None if "::" not in row.operator and mask[-2:] == _COMPRESSED else mask


def _fits(shape: Shape, mask: Shape) -> bool:
    """Whether a tensor is the mask, or spreads to it by axes of one and missing ones ahead."""
    if len(shape) > len(mask) or shape[-2:] != mask[-2:]:
        return False
    return all(own in (1, whole) for own, whole in zip(shape[::-1], mask[::-1], strict=False))


def _makes(row: OperatorCost, shapes: Sequence[Shape], mask: Shape, elsewhere: set[Shape]) -> bool:
    if row.kind not in _MAKES or not shapes or not all(_fits(shape, mask) for shape in _large(shapes)):
        return False
    return bool(_large(shapes)) and (triangle(row) or not any(_bare(shape) in elsewhere for shape in shapes))


def _mixes(row: OperatorCost, shapes: Sequence[Shape], mask: Shape, elsewhere: set[Shape]) -> bool:
    """Whether an operator puts something else into a mask of this shape."""
    if row.kind not in (*_MAKES, "indexing"):
        return False
    squares = [shape for shape in _large(shapes) if _fits(shape, mask) and _bare(shape) not in elsewhere]
    if not squares:
        return False
    if row.kind == "indexing" or len(squares) < len(_large(shapes)):
        return True
    return len(squares) > 1 and not _plain(row).replace("_", "").startswith(("maskedfill", *_COPIES))


_COPIES = (
    "copy",
    "clone",
    "tocopy",
    "cast",
    "contiguous",
    "viewcopy",
    "broadcastto",
    "expand",
    "tensormove",
    "identity",
)


def _large(shapes: Sequence[Shape]) -> list[Shape]:
    """Those of more than one number."""
    return [shape for shape in shapes if math.prod(shape) > 1]


def _bare(shape: Shape) -> Shape:
    """A shape without the axes of one that it begins with."""
    ahead = next((at for at, size in enumerate(shape) if size != 1), len(shape))
    return shape[ahead:]


def _plain(row: OperatorCost) -> str:
    """The name of a row's operator without its library, and whether in place."""
    return row.operator.rpartition("::")[2].lower().removesuffix("_")
