"""Checks each recorded step for faults of a training: a ring of steps is then written while it still holds the cause.

The watch computes nothing: the loss, the gradients' norms and the counts of NaN and infinities are in the step's lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hermes.inside.wire.numerics import Numbers, NumericsLook


class Watch:
    """A checker of one training's recorded steps. `look` gets the lines of a step and returns its fault, or an empty
    text."""

    def __init__(self) -> None:
        self._numbers = Numbers()
        self._count = 0

    def look(self, values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> str:
        """The fault of this step; empty without a fault. A NaN is reported once, until it is gone."""
        return self.numbers(_loss(values, ops), _norm(values, ops), _not_finite(values, ops))

    def numbers(self, loss: float | None, norm: float | None, because: str = "") -> str:
        """The fault of a loss and a gradient norm; empty without a fault."""
        self._count += 1
        found = self._numbers.wrong(NumericsLook(self._count, loss=loss, norm=norm), because)
        return found.text if found else ""


def _loss(values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> float | None:
    """The loss, where the backward pass begins: the last single floating-point number that the forward pass made."""
    for op in reversed(ops):
        if op["phase"] != "forward" or not op["out"] or not op["in"]:
            continue
        line = values[op["out"][0]]
        stats = _stats(values, op["out"][0])
        if math.prod(line["shape"]) == 1 and str(line["dtype"]).startswith(("float", "bfloat")) and stats:
            return float(stats[2])
    return None


def _norm(values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> float | None:
    squares = [float(stats[3]) ** 2 for _, stats in _gradients(values, ops)]
    return math.sqrt(sum(squares)) if squares else None


def _not_finite(values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> str:
    for op, stats in _gradients(values, ops):
        if stats[4] + stats[5] > 0:
            return f"the gradient of {op.get('parameter', 'a parameter')} is not finite"
    return ""


def _gradients(values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    for op in ops:
        if op["phase"] == "gradient":
            for number in op["out"]:
                stats = _stats(values, number)
                if stats:
                    yield op, stats


def _stats(values: list[dict[str, Any]], number: int) -> list[Any] | None:
    """The statistics of a value, or of its base value if a view shows all elements of the base."""
    line = values[number]
    for _ in range(8):
        if "view" not in line or line.get("stats"):
            break
        base = values[line["view"][0]]
        if math.prod(base["shape"]) != math.prod(line["shape"]):
            return None
        line = base
    found: list[Any] | None = line.get("stats")
    return found
