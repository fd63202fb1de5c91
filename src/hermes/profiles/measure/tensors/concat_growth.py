"""Tensors that are joined into one: how large the result is, and which joins append nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.knowledge.cost.tensors import per_tensor, shape_of, shape_text, shapes_of
from hermes.model.tensor_measures import KeptConcat

KEEPING = ("CatBackward0", "aten::roll")
"""What tells, by its first shape, that a join keeps its tensors: gradients flow through it, or it turns one around."""
_JOIN = re.compile(r"aten::_?cat|concat(d|v2|v2d)?(v\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a join makes: its shape, and how many of its numbers come from the largest of its tensors."""

    shape: tuple[int, ...]
    largest: int

    @property
    def elements(self) -> int:
        """How many numbers are written."""
        return math.prod(self.shape)

    @property
    def text(self) -> str:
        """The shape as tables write it."""
        return shape_text(self.shape)


def joined(operator: str, shapes: str) -> Joined | None:
    """What a call of an operator on a list of tensors joins them into; None where it is no join of two at least."""
    if not _JOIN.fullmatch(operator):
        return None
    parts = shapes_of(shapes)
    if len(parts) < 2:
        return None
    most = max(parts, key=math.prod)
    parts = [shape for shape in parts if len(shape) == len(most)]
    axes = {axis for shape in parts for axis, length in enumerate(shape) if length != most[axis]}
    if len(parts) < 2 or len(axes) != 1:
        return None
    (axis,) = axes
    whole = sum(shape[axis] for shape in parts)
    return Joined(shape=(*most[:axis], whole, *most[axis + 1 :]), largest=math.prod(most))


def kept_concats(rank: int, calls: pl.DataFrame) -> Iterator[KeptConcat]:
    """Shapes of joins that append nothing; `calls` are the rows `name, shapes`, others than of `KEEPING` too."""
    own = calls.filter(pl.col("name").is_in(KEEPING))["shapes"].drop_nulls().unique().sort()
    for text in own:
        shape = per_tensor(text)[0]
        if shape_of(shape):
            yield KeptConcat(rank=rank, shape=shape)
