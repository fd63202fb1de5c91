"""What of a golden step the target was not held against: the two agree only where nothing is.

An operator of the golden run is met where

- it has a counterpart, and each of its results that was recorded was compared with the counterpart's; or
- it has none, but what becomes of its results is met: they reach, through other operators without a counterpart, a
  value that was compared. So a fused operator meets those that it stands for; or
- it has none and computes nothing: it casts, shows or moves a tensor, or makes a constant, and nobody that was recorded
  uses that. This holds only where the target's step ends: else nobody knows what would have come.
"""

from __future__ import annotations

from typing import NamedTuple

from hermes.precision.model import Op, Step, Value
from hermes.precision.names import arithmetic, is_cast, overwrites


class Missing(NamedTuple):
    """Operators of a golden step, by their places, that were not met."""

    alone: tuple[int, ...] = ()
    """Without a counterpart."""
    unknown: tuple[int, ...] = ()
    """With a counterpart, but with a result that was recorded and not compared."""
    compared: bool = True
    """Whether any value was."""


def recorded(value: Value) -> bool:
    """Whether something to compare was recorded of a value; what a view shows is recorded with its base."""
    known = value.stats is not None or bool(value.mark) or value.data is not None
    return known and value.view is None and value.count > 0


def missing(
    golden: Step, target: Step, paired: dict[int, int], compared: set[int], unknown: list[int]
) -> Missing | None:
    """What was not met; None where all was.

    `compared` are values of the golden run that were compared, `unknown` operators with a result that was not.
    """
    alone = [op for op in golden.ops if op.number not in paired]
    lost = tuple(_unmet(golden, alone, set(compared), whole=target.complete)) if alone else ()
    if not lost and not unknown and compared:
        return None
    return Missing(lost, tuple(unknown), bool(compared))


def _unmet(golden: Step, alone: list[Op], met: set[int], *, whole: bool) -> list[int]:
    met |= {_root(golden, number) for number in met}
    found: list[int] = []
    used: set[int] = set()
    for op in reversed(alone):
        roots = {number for one in op.outputs for number in (one, _root(golden, one))}
        if roots & met:
            met.update(number for one in op.inputs for number in (one, _root(golden, one)))
        elif not (whole and _computes_nothing(golden, op) and not roots & used):
            found.append(op.number)
            used.update(number for one in op.inputs for number in (one, _root(golden, one)))
    return found[::-1]


def _computes_nothing(step: Step, op: Op) -> bool:
    if not op.outputs or is_cast(op.name) or all(step.values[one].view is not None for one in op.outputs):
        return op.phase not in ("gradient", "update")
    return arithmetic(op.name) == "moves" and (not op.inputs or overwrites(op.name))


def _root(step: Step, number: int) -> int:
    """The value that this one shows elements of."""
    value = step.values[number]
    depth = 0
    while value.view is not None and depth < 64:
        value, depth = step.values[value.view.base], depth + 1
    return value.number
