"""Finds concatenations: the size of each result, and concatenations that append nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from hermes.knowledge.cost.tensors import per_tensor, shape_of, shape_text, shapes_of
from hermes.model.tensor_measures import KeptConcat

KEEPING = ("CatBackward0", "aten::roll")
"""Operators whose first shape tells that a concatenation keeps its tensors: gradients flow, or a tensor rotates."""
_JOIN = re.compile(r"aten::_?cat|concat(d|v2|v2d)?(v\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenation:
    """The result of a concatenation: its shape, and how many of its elements come from its largest tensor."""

    shape: tuple[int, ...]
    largest: int

    @property
    def elements(self) -> int:
        """The number of elements that the concatenation writes."""
        return math.prod(self.shape)

    @property
    def text(self) -> str:
        """The shape as tables write it."""
        return shape_text(self.shape)


def concatenation_of(operator: str, shapes: str) -> Concatenation | None:
    """The result of concatenating the listed tensors; None if the operator does not join at least two tensors."""
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
    return Concatenation(shape=(*most[:axis], whole, *most[axis + 1 :]), largest=math.prod(most))


def kept_concats(rank: int, calls: pl.DataFrame) -> Iterator[KeptConcat]:
    """Shapes of concatenations that append nothing; `calls` are rows `name, shapes`, not only of `KEEPING`."""
    own = calls.filter(pl.col("name").is_in(KEEPING))["shapes"].drop_nulls().unique().sort()
    for text in own:
        shape = per_tensor(text)[0]
        if shape_of(shape):
            yield KeptConcat(rank=rank, shape=shape)
