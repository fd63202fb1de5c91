"""What one operator of two runs shows by itself: casts, agreement of inputs, only rounding."""

from __future__ import annotations

from hermes.precision.distance import Distance
from hermes.precision.judgement import Suspect, badness
from hermes.precision.model import Op, Step
from hermes.precision.names import is_cast
from hermes.precision.noise import roundoff


def narrow(out: Distance) -> str:
    """A type whose rounding of each element would give this distance; only elements can tell."""
    if out.changed is None or out.changed < 0.5:
        return ""
    for dtype, unit in (("bfloat16", 2.0**-9), ("float16 or TF32", 2.0**-12)):
        if 0.25 * unit <= out.relative <= 1.2 * unit:
            return dtype
    return ""


def suspect(one: Op, two: Op, kind: str, why: str, inputs: list[Distance], out: Distance, ratio: float) -> Suspect:
    """An operator to blame, and how sure that is."""
    equal = all(one.equal for one in inputs if one.known != "none")
    sure = "certain" if equal and (ratio > 10 or kind == "another argument") else "likely" if ratio > 3 else "possible"
    if kind in ("another argument", "another dtype") and sure == "possible":
        sure = "likely"
    return Suspect(
        golden=one.number, target=two.number, kind=kind, why=why, confidence=sure, ratio=ratio,
        inputs=max(inputs, key=badness, default=None), outputs=out,
    )  # fmt: skip


def inputs_agree(inputs: list[Distance]) -> bool:
    """Whether every input that is known is the same."""
    return all((one.known == "none" and not one.what) or one.equal for one in inputs)


def only_rounding(inputs: list[Distance], ratio: float) -> bool:
    """Whether inputs differ no more than rounding explains; the tolerance of the outputs counts on that
    difference."""
    return (
        all(not one.what and one.nan_golden == one.nan_target and one.relative < 0.05 for one in inputs) and ratio > 1
    )


def casts(step: Step, places: list[int]) -> str:
    """The type of fewest digits that these operators change a tensor to; empty where they change none."""
    found = []
    for at in places:
        op = step.ops[at]
        if op.inputs and op.outputs and is_cast(op.name):
            kinds = step.values[op.inputs[-1]].dtype, step.values[op.outputs[0]].dtype
            found += [kinds[1]] if roundoff(kinds[1]) > roundoff(kinds[0]) else []
    return max(found, key=roundoff, default="")
