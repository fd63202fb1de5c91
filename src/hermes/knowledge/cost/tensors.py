"""Parses the tensors of one operator call from the texts that the canonical tables store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hermes.knowledge.dtypes import ElementType, element_type

# Texts of a trace are not trusted: no tensor has more dimensions, and no chip holds more elements.
_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 1 << 50
_MOST_TENSORS = 4_096
BETWEEN_TENSORS = ";"
"""The separator between tensors in texts of shapes, types, strides and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor of a call; `shape` is as stored, `kind` is None if the type is unknown or the input is no tensor."""

    shape: tuple[int, ...]
    kind: ElementType | None
    format: str = ""

    @property
    def elements(self) -> int:
        """The number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int | None:
        """The size in bytes, or None when the type is not known."""
        return None if self.kind is None else self.elements * self.kind.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A recorded operator call: name, tensors, values of its other inputs, and one of its kernels.

    `outputs` is empty if the profiler records none (PyTorch's Kineto). `values` are texts by input, empty for tensors.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()
    values: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    kernel: str = ""


def tensors(shapes: str | None, dtypes: str | None, formats: str | None = None) -> tuple[Tensor, ...]:
    """The tensors of `2,3;4` with `float;int`; empty when the shapes are not recorded or not numbers.

    An input that is a list of tensors has one type for several shapes: then a tensor's place does not tell its type.
    """
    if shapes is None:
        return ()
    dims = per_tensor(shapes)
    kinds = per_tensor(dtypes) if dtypes else []
    layouts = per_tensor(formats) if formats else []
    if len(dims) > _MOST_TENSORS:
        return ()
    found = []
    for at, text in enumerate(dims):
        shape = shape_of(text)
        if shape is None:
            return ()
        known = element_type(kinds[at]) if len(kinds) == len(dims) else None
        found.append(Tensor(shape=shape, kind=known, format=layouts[at] if len(layouts) == len(dims) else ""))
    return tuple(found)


def per_tensor(text: str | None) -> list[str]:
    """The part of a text of shapes, types or values for each tensor: `2,3` and `4` of `2,3;4`."""
    return (text or "").split(BETWEEN_TENSORS)


def shapes_of(text: str | None) -> list[tuple[int, ...]]:
    """The known, non-empty shapes in a text, in order."""
    return [shape for part in per_tensor(text) if (shape := shape_of(part))]


def shape_text(shape: Sequence[int]) -> str:
    """A shape as text, such as `2,3`."""
    return ",".join(map(str, shape))


def elements_of(text: str) -> int:
    """The number of elements of a shape written as text; 0 for an empty text, or one without numbers."""
    shape = shape_of(text)
    return math.prod(shape) if shape else 0


def shape_of(text: str) -> tuple[int, ...] | None:
    """The shape of a text such as `2,3`; empty for an empty text, None if not numbers or with too many dimensions."""
    if not text:
        return ()
    parts = text.split(",")
    if len(parts) > _MOST_DIMENSIONS or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    shape = tuple(map(int, parts)) if max(map(len, parts)) <= 15 else None
    return shape if shape is not None and math.prod(shape) <= _MOST_ELEMENTS else None
