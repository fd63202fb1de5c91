"""Computes the tolerance of an operator's results: how far the results of two runs may be apart by rounding alone.

An operator rounds its result, and passes on the distance of its inputs. Both are estimated as norms:

- rounding: `MARGIN` times the unit roundoff of the narrower type, times the size of the rounded value. For sums this is
  the size of the summands, which may be larger than the sum. For products of matrices it is the product of the norms.
  For random matrices the product of the norms is the square root of the length of the sums times the norm of the
  result;
- passed on: an input's distance times the largest factor for the kind of operator (`GAIN`).

All limits of the model are in this module. A repeated golden run (`--noise`) replaces the estimate of rounding.
"""

from __future__ import annotations

import math
from typing import Final

from hermes.precision.distance import Distance
from hermes.precision.operator_names import arithmetic, family, is_comparison
from hermes.precision.recorded_step import OperatorCall, RecordedStep

ROUNDOFF: Final = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3, "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip
"""The unit roundoff of each type: half the distance from 1 to the next number; for bfloat16 that of truncation."""

MARGIN: Final = 16.0
"""The unit roundoffs that two correct implementations of an operator may differ by: each sums in its own order."""
GAIN: Final = 40.0
"""The factor by which an operator may enlarge the relative distance of its inputs without being suspicious."""
STEEP: Final = 4.0
"""The factor by which an operator may enlarge the absolute distance of its inputs, if its slope is not known."""
_FLAT: Final = 32.0
_SAFE = 1e-300
_STEEP = frozenset(
    ["log", "_log_softmax", "logsumexp", "log1p", "reciprocal", "rsqrt", "div", "pow", "sqrt", "addcdiv"]
)
"""Operators whose slope is unbounded for some inputs."""


def roundoff(dtype: str) -> float:
    """The unit roundoff of a type; 0 for a type that is not rounded."""
    return ROUNDOFF.get(dtype, 0.0)


class RoundingTolerance:
    """Tolerances for two steps. `repeated` gives, by operator index, the distances in a repeated golden run."""

    def __init__(self, golden: RecordedStep, target: RecordedStep, repeated: dict[int, float] | None = None) -> None:
        self._golden = golden
        self._target = target
        self._repeated = repeated

    def tolerance(self, one: OperatorCall, two: OperatorCall, at: int, out: Distance, inputs: list[Distance]) -> float:
        """How far the outputs `at` of a pair of operators may be apart, as a norm."""
        dtype = self._coarser(one, two, at)
        kind = arithmetic(one.name)
        sizes = [one.size for one in inputs if one.known != "none"]
        rounded = self._rounded(kind, dtype, out.size, sizes)
        if kind == "moves" and self._narrows(one, dtype) and any(not one.equal for one in inputs):
            rounded = 2 * roundoff(dtype) * out.size  # two close numbers may round to either side
        if self._repeated is not None and one.number in self._repeated:
            rounded = max(rounded if kind != "moves" else 0.0, 4 * self._repeated[one.number] * out.size)
        return rounded + self._passed_on(kind, one, out, inputs)

    def _narrows(self, one: OperatorCall, dtype: str) -> bool:
        return any(roundoff(self._golden.values[number].dtype) < roundoff(dtype) for number in one.inputs)

    def _coarser(self, one: OperatorCall, two: OperatorCall, at: int) -> str:
        if at >= len(one.outputs):
            return "float32"
        found = self._golden.values[one.outputs[at]].dtype, self._target.values[two.outputs[at]].dtype
        return found[0] if found[0] == found[1] else max(found, key=roundoff)

    @staticmethod
    def _rounded(kind: str, dtype: str, size: float, inputs: list[float]) -> float:
        unit = roundoff(dtype)
        if kind == "moves" or not unit:
            return 0.0
        if kind == "contraction" and len(inputs) > 1:
            first, second = sorted(inputs)[-2:]
            # Sums are kept in float32 or better, whatever the type of the result.
            return MARGIN * (unit * size + min(unit, ROUNDOFF["float32"]) * first * second)
        if kind in ("reduction", "module") and inputs:
            return MARGIN * (unit * size + min(unit, ROUNDOFF["float32"]) * max(inputs))
        return MARGIN * unit * max(size, *inputs, 0.0) if inputs else MARGIN * unit * size

    def _passed_on(self, kind: str, op: OperatorCall, out: Distance, inputs: list[Distance]) -> float:
        worst = far = 0.0
        for one in inputs:
            apart, size = one.apart, one.size
            if far < apart < math.inf:
                far = apart
            if size > 0 and worst < apart / size < math.inf:
                worst = apart / size
        if not worst:
            return 0.0
        passed = GAIN * worst * out.size
        if kind == "contraction":
            sizes = [max(one.size, _SAFE) for one in inputs]
            passed += sum(
                one.apart * max((size for at, size in enumerate(sizes) if inputs[at] is not one), default=1.0)
                for one in inputs
                if math.isfinite(one.apart)
            )
        else:
            passed += STEEP * far
        if kind == "reduction":
            passed += _FLAT * far
        if family(op.name) in _STEEP:
            passed += GAIN * worst * math.sqrt(max(self._count(op), 1))
        if is_comparison(op.name) and len(op.inputs) > 1:
            # The difference of two close tensors may have any direction.
            passed += math.sqrt(max(self._count(op), 1))
        if kind == "breaks":
            # A tie may fall to either side: assume a tenth of the elements, each as large as the largest.
            passed += 0.35 * max(out.size, max((one.size for one in inputs), default=0.0))
        return passed

    def _count(self, op: OperatorCall) -> int:
        return max((self._golden.values[one].count for one in op.outputs), default=1)
