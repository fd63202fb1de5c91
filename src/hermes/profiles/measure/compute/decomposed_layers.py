"""Finds layers made of several operators for which a library has one kernel, by names and shapes.

A pattern's parts run equally often, on shapes that follow from one another, on the same ranks. Whether the parts run
one after the other is not checked: equal counts of such special shapes have no other reason in practice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hermes.knowledge.cost.tensors import shapes_of
from hermes.model.compute_measures import OperatorCost

Shape = tuple[int, ...]
Layer = Literal["RMSNorm", "rotary embedding", "SwiGLU", "attention"]

_VERSION = re.compile(r"(V\d+|D)$")
# Framework operators and Ascend's operator types under one name.
_SAME = {
    "pow": "pow", "pows": "pow", "square": "pow", "mean": "mean", "reducemean": "mean", "rsqrt": "rsqrt", "mul": "mul",
    "silu": "silu", "swish": "silu", "neg": "neg", "cat": "cat", "concat": "cat", "add": "add", "softmax": "softmax",
    "_softmax": "softmax", "_softmax_backward_data": "softmax backward", "softmaxgrad": "softmax backward",
    "div": "mul", "realdiv": "mul", "muls": "mul", "masked_fill": "add", "maskedfill": "add",
}  # fmt: skip
_SCORES = 32
"""Shorter rows and columns are no matrix of attention scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A layer that is made of the operators `parts`, although a library has one kernel for it.

    `saved_ns` is what that kernel would save over all calls. The kernel takes at least as long as the longest part, and
    need not write attention scores.
    """

    layer: Layer
    parts: tuple[OperatorCost, ...]
    saved_ns: int


class _Rows:
    """Operators indexed by ranks, name, calls and one of their shapes, as a pattern looks them up."""

    def __init__(self, operators: Sequence[OperatorCost]) -> None:
        self.used: set[int] = set()
        self.named: dict[str, list[OperatorCost]] = {}
        self.products: dict[tuple[int, ...], int] = {}
        self._shapes: dict[int, tuple[Shape, ...]] = {}
        self._by: dict[tuple[tuple[int, ...], str, int, Shape], list[OperatorCost]] = {}
        for row in operators:
            if row.kind == "batched matmul":
                self.products[row.ranks] = max(row.calls, self.products.get(row.ranks, 0))
            name = _name(row)
            if not name or not row.calls or not row.ns:
                continue
            self.named.setdefault(name, []).append(row)
            self._shapes[id(row)] = shapes = _parsed(row.shapes)
            for shape in set(shapes):
                self._by.setdefault((row.ranks, name, row.calls, shape), []).append(row)

    def shapes(self, row: OperatorCost) -> tuple[Shape, ...]:
        """The shapes of an operator's inputs, without scalars."""
        return self._shapes[id(row)]

    def like(self, row: OperatorCost, name: str, calls: int, *needed: Shape) -> list[OperatorCost]:
        """Operators of a name with `calls` calls on the same ranks with all these shapes, which have no pattern yet."""
        near = self._by.get((row.ranks, name, calls, needed[0]), ())
        return [other for other in near if id(other) not in self.used and set(needed) <= set(self._shapes[id(other)])]


def patterns(operators: Sequence[OperatorCost]) -> tuple[Pattern, ...]:
    """Every pattern among the operators of a capture; an operator belongs to at most one pattern."""
    rows = _Rows(operators)
    found: list[Pattern] = []
    for layer, head, parts_of in _LAYERS:
        for row in rows.named.get(head, ()):
            parts = parts_of(row, rows) if id(row) not in rows.used and rows.shapes(row) else []
            if parts:
                rows.used.update(map(id, parts))
                longest = 0 if layer == "attention" else max(part.ns for part in parts)
                saved = sum(part.ns for part in parts) - longest
                found.append(Pattern(layer=layer, parts=tuple(parts), saved_ns=saved))
    return tuple(found)


def _name(row: OperatorCost) -> str:
    plain = _VERSION.sub("", row.operator.rpartition("::")[2]).lower().removesuffix("_")
    return _SAME.get(plain, "")


def _parsed(text: str) -> tuple[Shape, ...]:
    return tuple(shapes_of(text))


def _rms_norm(row: OperatorCost, rows: _Rows) -> list[OperatorCost]:
    whole, calls = rows.shapes(row)[0], row.calls
    if len(whole) < 2:
        return []
    each = (*whole[:-1], 1)
    mean, root = rows.like(row, "mean", calls, whole), rows.like(row, "rsqrt", calls, each)
    scaled, weighted = rows.like(row, "mul", calls, each, whole), rows.like(row, "mul", calls, whole[-1:], whole)
    return [row, mean[0], root[0], scaled[0], *weighted[:1]] if mean and root and scaled else []


def _rotary(row: OperatorCost, rows: _Rows) -> list[OperatorCost]:
    half, calls = rows.shapes(row)[0], row.calls
    if len(half) < 3:
        return []
    whole = (*half[:-1], 2 * half[-1])
    turned = [other for other in rows.like(row, "cat", calls, half) if rows.shapes(other) == (half, half)]
    times = [other for count in (calls, 2 * calls) for other in rows.like(row, "mul", count, whole)]
    summed = [other for other in rows.like(row, "add", calls, whole) if rows.shapes(other)[:2] == (whole, whole)]
    return [row, turned[0], *times[:2], summed[0]] if turned and times and summed else []


def _swiglu(row: OperatorCost, rows: _Rows) -> list[OperatorCost]:
    whole = rows.shapes(row)[0]
    gated = [other for other in rows.like(row, "mul", row.calls, whole) if rows.shapes(other) == (whole, whole)]
    return [row, gated[0]] if gated else []


def _attention(row: OperatorCost, rows: _Rows) -> list[OperatorCost]:
    whole = rows.shapes(row)[0]
    if len(whole) < 3 or min(whole[-2:]) < _SCORES or rows.products.get(row.ranks, 0) < row.calls:
        return []
    # The gradient of the scaling has the name and the shape of the scaling.
    counts = {row.calls, 2 * row.calls}
    return [
        row,
        *(other for name in ("mul", "add") for calls in counts for other in rows.like(row, name, calls, whole)),
        *rows.like(row, "softmax backward", row.calls, whole),
    ]


_LAYERS: tuple[tuple[Layer, str, Callable[[OperatorCost, _Rows], list[OperatorCost]]], ...] = (
    ("RMSNorm", "pow", _rms_norm),
    ("rotary embedding", "neg", _rotary),
    ("SwiGLU", "silu", _swiglu),
    ("attention", "softmax", _attention),
)
