"""Operators that together are one layer which a library has as a single kernel: told by names, shapes and calls.

A pattern's parts run equally often, on shapes that follow from one another, on the same ranks. That they also run one
after the other is not looked at: equal counts of so special shapes have no other reason in practice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.analyze.compute_measures import OperatorCost

Shape = tuple[int, ...]
Layer = Literal["RMSNorm", "rotary embedding", "SwiGLU", "attention"]

_VERSION = re.compile(r"(V\d+|D)$")
# Framework operators and Ascend's types under one name.
_SAME = {
    "pow": "pow", "pows": "pow", "square": "pow", "mean": "mean", "reducemean": "mean", "rsqrt": "rsqrt", "mul": "mul",
    "silu": "silu", "swish": "silu", "neg": "neg", "cat": "cat", "concat": "cat", "add": "add", "softmax": "softmax",
    "_softmax": "softmax", "div": "mul", "realdiv": "mul", "muls": "mul", "masked_fill": "add", "maskedfill": "add",
}  # fmt: skip
_SCORES = 32
"""Shorter rows and columns are no matrix of attention scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A layer that is put together from these operators. `saved_ns` is what one kernel in their place would save, over
    all calls: it takes at least as long as the longest of them; attention scores need not be written at all.
    """

    layer: Layer
    parts: tuple[OperatorCost, ...]
    saved_ns: int


def patterns(operators: Sequence[OperatorCost]) -> tuple[Pattern, ...]:
    """Every pattern among operators of a capture; an operator belongs to one at most."""
    rows = [row for row in operators if row.calls and row.ns]
    used: set[int] = set()
    found: list[Pattern] = []
    for layer, parts_of in _LAYERS:
        for row in rows:
            if id(row) in used:
                continue
            free = [other for other in rows if id(other) not in used and other.ranks == row.ranks]
            parts = parts_of(row, free)
            if parts:
                used.update(map(id, parts))
                longest = 0 if layer == "attention" else max(part.ns for part in parts)
                found.append(
                    Pattern(layer=layer, parts=tuple(parts), saved_ns=sum(part.ns for part in parts) - longest)
                )
    return tuple(found)


def _name(row: OperatorCost) -> str:
    plain = _VERSION.sub("", row.operator.rpartition("::")[2]).lower().removesuffix("_")
    return _SAME.get(plain, "")


def _shapes(row: OperatorCost) -> tuple[Shape, ...]:
    parts = (part.split(",") for part in row.shapes.split(";"))
    return tuple(tuple(map(int, part)) for part in parts if all(size.isdecimal() for size in part))


def _with(rows: Sequence[OperatorCost], name: str, calls: int, *needed: Shape) -> Iterator[OperatorCost]:
    """The operators of a name with so many calls, that have all of these among their shapes."""
    for row in rows:
        if row.calls == calls and _name(row) == name and set(needed) <= set(_shapes(row)):
            yield row


def _rms_norm(row: OperatorCost, rows: Sequence[OperatorCost]) -> list[OperatorCost]:
    shapes = _shapes(row)
    if _name(row) != "pow" or not shapes or len(shapes[0]) < 2:
        return []
    whole, calls = shapes[0], row.calls
    each = (*whole[:-1], 1)
    mean, root = list(_with(rows, "mean", calls, whole)), list(_with(rows, "rsqrt", calls, each))
    scaled = list(_with(rows, "mul", calls, whole, each))
    weighted = list(_with(rows, "mul", calls, whole, whole[-1:]))
    return [row, mean[0], root[0], scaled[0], *weighted[:1]] if mean and root and scaled else []


def _rotary(row: OperatorCost, rows: Sequence[OperatorCost]) -> list[OperatorCost]:
    shapes = _shapes(row)
    if _name(row) != "neg" or not shapes or len(shapes[0]) < 3:
        return []
    half, calls = shapes[0], row.calls
    whole = (*half[:-1], 2 * half[-1])
    turned = [other for other in _with(rows, "cat", calls, half) if _shapes(other) == (half, half)]
    times = [other for count in (calls, 2 * calls) for other in _with(rows, "mul", count, whole)]
    summed = [other for other in _with(rows, "add", calls, whole) if _shapes(other)[:2] == (whole, whole)]
    return [row, turned[0], *times[:2], summed[0]] if turned and times and summed else []


def _swiglu(row: OperatorCost, rows: Sequence[OperatorCost]) -> list[OperatorCost]:
    shapes = _shapes(row)
    if _name(row) != "silu" or not shapes:
        return []
    gated = [other for other in _with(rows, "mul", row.calls, shapes[0]) if _shapes(other) == (shapes[0], shapes[0])]
    return [row, gated[0]] if gated else []


def _attention(row: OperatorCost, rows: Sequence[OperatorCost]) -> list[OperatorCost]:
    shapes = _shapes(row)
    if _name(row) != "softmax" or not shapes or len(shapes[0]) < 3 or min(shapes[0][-2:]) < _SCORES:
        return []
    products = [other for other in rows if other.kind == "batched matmul" and other.calls >= row.calls]
    scores = [other for name in ("mul", "add") for other in _with(rows, name, row.calls, shapes[0])]
    return [row, *scores] if products else []


_LAYERS: tuple[tuple[Layer, Callable[[OperatorCost, Sequence[OperatorCost]], list[OperatorCost]]], ...] = (
    ("RMSNorm", _rms_norm),
    ("rotary embedding", _rotary),
    ("SwiGLU", _swiglu),
    ("attention", _attention),
)
