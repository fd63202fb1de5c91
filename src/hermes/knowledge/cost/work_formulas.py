"""Formulas for the operations and bytes of one operator call, found by the name of the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.knowledge.cost.tensors import Tensor

Unit = Literal["matrix", "vector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWorkload:
    """The least work of a call: operations on one kind of unit, and bytes to and from memory.

    `flops` counts a multiplication with its addition as two. `bytes` reads each input and writes each output once, and
    is None when a type is missing. `precision` is the precision of the inputs; `note` says what was assumed or left
    out.
    """

    flops: int
    bytes: int | None
    unit: Unit
    precision: str
    note: str = ""


def total_bytes(parts: tuple[Tensor, ...] | list[Tensor]) -> int | None:
    """The bytes of all tensors, or None when a tensor's type is not known."""
    total = 0
    for part in parts:
        size = part.bytes
        if size is None:
            return None
        total += size
    return total


def plus(*sizes: int | None) -> int | None:
    """The sum of the parts, or None when a part is not known."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def precision_of(parts: tuple[Tensor, ...] | list[Tensor]) -> str:
    """The precision of the first tensor whose type has a rate; empty if there is none."""
    return next((part.kind.precision for part in parts if part.kind is not None and part.kind.precision), "")
