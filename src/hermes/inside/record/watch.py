"""Looks at each recorded step for what goes wrong in a training: a ring is written while it still holds the cause.

It computes nothing: the loss, the gradients' norms and the counts of NaN and infinities are in the step's lines.
A number is compared with those of the last steps by their median and the median distance from it, which a single jump
does not move. Nothing is said of the first steps, in which a training finds its way.
"""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Iterator
from typing import Any

_LAST = 50
"""Steps that are looked back on."""
_FIRST = 10
"""Steps before the first alarm but for NaN."""
_FAR = 10.0
"""Median distances from the median that are an outlier: about seven standard deviations of a normal one."""
_SPIKE = 0.5
"""A loss jumps when it rises by this share of its median too: some losses hardly move at all."""
_TIMES = 100.0
"""A norm of gradients explodes or vanishes when it is so many times that of before."""


class Watch:
    """One training. `look` gets the lines of a step and says what is wrong with it, or nothing."""

    def __init__(self) -> None:
        self._losses: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._norms: collections.deque[float] = collections.deque(maxlen=_LAST)
        self._broken = False

    def look(self, values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> str:
        """What is wrong with this step; empty where nothing is. A NaN is told of once, until it is gone."""
        loss, norm, wrong = _loss(values, ops), _norm(values, ops), _not_finite(values, ops)
        if loss is not None and not math.isfinite(loss):
            wrong = wrong or f"the loss is {loss}"
        reason = "" if self._broken else wrong
        self._broken = bool(wrong)
        if wrong:
            return reason
        return self.numbers(loss, norm)

    def numbers(self, loss: float | None, norm: float | None) -> str:
        """The same of a loss and a norm that are finite."""
        reason = ""
        if loss is not None:
            reason = _spike(self._losses, loss)
            self._losses.append(loss)
        if norm is not None:
            reason = reason or _other_size(self._norms, norm)
            self._norms.append(norm)
        return reason


def _spike(before: collections.deque[float], loss: float) -> str:
    if len(before) < _FIRST:
        return ""
    middle = statistics.median(before)
    spread = statistics.median(abs(one - middle) for one in before)
    if loss - middle > max(_FAR * spread, _SPIKE * abs(middle)) and loss > max(before):
        return f"the loss jumped to {loss:.4g} from about {middle:.4g}"
    return ""


def _other_size(before: collections.deque[float], norm: float) -> str:
    if len(before) < _FIRST:
        return ""
    middle = statistics.median(before)
    if middle > 0 and norm > _TIMES * middle and norm > _TIMES / 10 * max(before):
        return f"gradients explode: their norm is {norm:.3g}, it was about {middle:.3g}"
    if middle > 0 and norm < middle / _TIMES and norm < min(before) / (_TIMES / 10):
        return f"gradients vanish: their norm is {norm:.3g}, it was about {middle:.3g}"
    return ""


def _loss(values: list[dict[str, Any]], ops: list[dict[str, Any]]) -> float | None:
    """What the backward pass begins at: the last single floating number that the forward pass made."""
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
    """The statistics of a value, or of the one that it shows all elements of."""
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
