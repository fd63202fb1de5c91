"""Finds operators of a golden step that the target does not account for: two steps agree only if there are none.

An operator of the golden run is accounted for if

- it has a counterpart, and each of its recorded results was compared with the counterpart's; or
- it has no counterpart, but its results reach a compared value through other operators without a counterpart. So a
  fused operator accounts for the operators that it replaces; or
- it has no counterpart and computes nothing: it casts, shows or moves a tensor, or makes a constant, and no recorded
  operator uses the result. This holds only if the target's step has an end: otherwise later operators are not known.
"""

from __future__ import annotations

from typing import NamedTuple

from hermes.precision.operator_names import arithmetic, is_cast, overwrites
from hermes.precision.recorded_step import OperatorCall, RecordedStep, RecordedValue


class MissingOperators(NamedTuple):
    """The indices of operators of a golden step that the target does not account for."""

    alone: tuple[int, ...] = ()
    """Indices of operators without a counterpart."""
    unknown: tuple[int, ...] = ()
    """Indices of operators with a counterpart, but with a recorded result that was not compared."""
    compared: bool = True
    """Whether any value was compared."""


def recorded(value: RecordedValue) -> bool:
    """Whether data to compare was recorded of a value; for a view, the data is recorded with its base."""
    known = value.stats is not None or bool(value.mark) or value.data is not None
    return known and value.view is None and value.count > 0


def missing_operators(
    golden: RecordedStep, target: RecordedStep, paired: dict[int, int], compared: set[int], unknown: list[int]
) -> MissingOperators | None:
    """The golden operators that the target does not account for; None if there are none.

    `compared` are golden values that were compared, `unknown` are operators with a result that was not compared.
    """
    alone = [op for op in golden.ops if op.number not in paired]
    lost = tuple(_unmet(golden, alone, set(compared), whole=target.complete)) if alone else ()
    if not lost and not unknown and compared:
        return None
    return MissingOperators(lost, tuple(unknown), bool(compared))


def _unmet(golden: RecordedStep, alone: list[OperatorCall], met: set[int], *, whole: bool) -> list[int]:
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


def _computes_nothing(step: RecordedStep, op: OperatorCall) -> bool:
    if not op.outputs or is_cast(op.name) or all(step.values[one].view is not None for one in op.outputs):
        return op.phase not in ("gradient", "update")
    return arithmetic(op.name) == "moves" and (not op.inputs or overwrites(op.name))


def _root(step: RecordedStep, number: int) -> int:
    """The value whose elements this value shows."""
    value = step.values[number]
    depth = 0
    while value.view is not None and depth < 64:
        value, depth = step.values[value.view.base], depth + 1
    return value.number
