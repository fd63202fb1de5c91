"""What one operator of two runs shows by itself: casts, agreement of inputs, only rounding."""

from __future__ import annotations

import math
from dataclasses import replace

from hermes.precision.distance import Distance
from hermes.precision.judgement import Suspect, badness, not_finite
from hermes.precision.model import Op, Step
from hermes.precision.names import arithmetic, family, fills_a_part, is_cast, is_collective, is_empty
from hermes.precision.noise import roundoff

_SOURCES = 64
_NEAR, _FAR = 2.0**-17, 0.01
"""Inputs that differ by no more than sums of float32 are off by, and outputs that no operator on them explains."""


def narrow(out: Distance) -> str:
    """A type whose rounding of each element would give this distance; only elements can tell."""
    if out.changed is None or out.changed < 0.5:
        return ""
    for dtype, unit in (("bfloat16", 2.0**-9), ("float16 or TF32", 2.0**-12)):
        if 0.25 * unit <= out.relative <= 1.2 * unit:
            return dtype
    return ""


def kind_of(one: Op, two: Op, out: Distance, different: str) -> tuple[str, str]:
    """Of what kind a difference is that an operator added, and why."""
    if one.random != two.random:
        return "another order of randomness", "the random generator was in another state"
    if one.random == "":
        return "another order of randomness", "the state of the device's generator is not known"
    if out.nan_golden != out.nan_target:
        side = "target" if out.nan_target > out.nan_golden else "golden run"
        return "NaN or inf born here", f"{abs(out.nan_target - out.nan_golden):,.0f} elements of the {side}"
    if is_collective(one.name):
        return "another reduction over ranks", different or "its inputs agree on this rank and its result does not"
    if out.what == "shape":
        return "another shape", "its outputs have another shape"
    if out.scale is not None:
        return "scale", f"the target is {out.scale:.6g} times the golden run"
    fewer = narrow(out)
    if fewer:
        return "another dtype", f"apart by the roundoff of {fewer}: computed in fewer digits"
    return "another formula", different or "inputs and arguments agree, results do not"


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


def far_beyond(inputs: list[Distance], out: Distance) -> bool:
    """Whether outputs are far apart though inputs are not, as far as their statistics tell.

    A tolerance grows with how far inputs may be apart, and numbers such as a mask of -1e9 hide much of that.
    """
    if out.what or out.nan_golden != out.nan_target or not math.isfinite(out.relative):
        return False
    near = all(not one.what and one.nan_golden == one.nan_target and one.relative <= _NEAR for one in inputs)
    return near and out.relative >= _FAR


def dropped(one: Op, two: Op, side: str, culprit: int | None) -> Suspect:
    """A parameter that has a gradient on one side alone; `culprit` is the operator of the target that cut it off."""
    found = Suspect(golden=one.number, target=two.number, kind="dropped gradient", confidence="likely", ratio=math.inf,
                    why=f"{one.parameter} has no gradient in the {side}")  # fmt: skip
    return found if culprit is None else replace(found, golden=None, target=culprit)


def cut(target: Step, pairs: list[tuple[int | None, int | None]]) -> int | None:
    """A `detach` that only the target runs in the forward pass."""
    for one, two in pairs:
        if one is None and two is not None:
            op = target.ops[two]
            if op.phase == "forward" and family(op.name) == "detach":
                return two
    return None


def born(inputs: list[Distance], out: Distance) -> bool:
    """Whether NaN or infinity comes out on one side alone, and went in on none: however far apart the inputs are."""
    return out.nan_golden != out.nan_target and not any(one.nan_golden or one.nan_target for one in inputs)


def casts(step: Step, places: list[int]) -> str:
    """The type of fewest digits that these operators change a tensor to; empty where they change none."""
    found = []
    for at in places:
        op = step.ops[at]
        if op.inputs and op.outputs and is_cast(op.name):
            kinds = step.values[op.inputs[-1]].dtype, step.values[op.outputs[0]].dtype
            found += [kinds[1]] if roundoff(kinds[1]) > roundoff(kinds[0]) else []
    return max(found, key=roundoff, default="")


def unfilled(step: Step) -> frozenset[int]:
    """Values that show memory that no operator has filled, or scratch that a recurrent layer keeps for itself."""
    if not any(is_empty(name) or "rnn" in name for name in {op.name for op in step.ops}):
        return frozenset()
    empty = {op.number for op in step.ops if is_empty(op.name) or fills_a_part(op.name)}
    scratch = {op.number for op in step.ops if "rnn" in op.name}
    made = ((value, root_maker(step, value.number)) for value in step.values)
    return frozenset(value.number for value, at in made if at in empty or (at in scratch and value.dtype == "uint8"))


def root_maker(step: Step, number: int) -> int | None:
    """The operator that made a value, or what it shows elements of."""
    value = step.values[number]
    depth = 0
    while value.view is not None and depth < 64:
        value, depth = step.values[value.view.base], depth + 1
    return value.by if value.by is not None and value.by < len(step.ops) else None


def sources(step: Step, maker: int | None, paired: dict[int, int]) -> tuple[list[int], list[int]]:
    """Values that paired operators made, or that came from outside, and the unpaired operators after them."""
    values: list[int] = []
    ops: list[int] = []
    waiting = [maker] if maker is not None else []
    while waiting and len(ops) < _SOURCES:
        at = waiting.pop()
        if at in ops or at is None or at >= len(step.ops):
            continue
        if at in paired:
            values += step.ops[at].outputs
            continue
        ops.append(at)
        for number in step.ops[at].inputs:
            by = step.values[number].by
            if by is None:
                continue
            if by in paired:
                values.append(number)
            else:
                waiting.append(by)
    return values, sorted(ops)


def birth(step: Step, extra: list[int]) -> int:
    """The first of the target's operators that has NaN or inf in its outputs and none in its inputs."""
    for at in sorted(extra):
        if any(not_finite(step.values[one]) for one in step.ops[at].outputs):
            return at
    return extra[0]


def only_casts(golden: Step, steps: list[int], target: Step, more: list[int]) -> bool:
    """Whether a block changes types and places alone."""
    return all(is_cast(op.name) for op in [target.ops[at] for at in more] + [golden.ops[at] for at in steps])


def same_names(golden: Step, missing: list[int], target: Step, extra: list[int]) -> bool:
    """Whether a block runs the same arithmetic on both sides."""
    names, others = (
        [family(step.ops[at].name) for at in places if arithmetic(step.ops[at].name) != "moves"]
        for step, places in ((golden, missing), (target, extra))
    )
    return bool(names) and names == others


def rounds(step: Step, at: int, unit: float) -> float:
    """How often an operator of a block rounds, in roundings of the block's result."""
    op = step.ops[at]
    if arithmetic(op.name) == "moves" or not op.outputs:
        return 0.0
    return min(roundoff(step.values[op.outputs[0]].dtype) / unit, 1.0) if unit else 1.0


def other_result(golden: Step, target: Step, one: Op, two: Op, pair: tuple[int, int], exact: bool) -> Suspect | None:
    """An operator that takes the results of another one in other places, such as parts in another order."""
    maker, other = golden.values[pair[0]].by, target.values[pair[1]].by
    assert maker is not None
    assert other is not None
    places = golden.ops[maker].outputs, target.ops[other].outputs
    if len(places[0]) == 1 == len(places[1]):
        return None
    if pair[0] not in places[0] or pair[1] not in places[1]:
        return None
    at = places[0].index(pair[0]), places[1].index(pair[1])
    if at[0] == at[1] or len(places[0]) != len(places[1]):
        return None
    why = f"{family(one.name)} takes result {at[1]} of {family(golden.ops[maker].name)} in the place of result {at[0]}"
    return Suspect(golden=one.number, target=two.number, kind="another formula", why=why,
                   confidence="certain" if exact else "likely", ratio=float("inf"))  # fmt: skip


def other_place(golden: Step, target: Step, one: Op, two: Op) -> str:
    """Words for a view that shows other elements of the same memory; empty where it does not."""
    if len(one.outputs) != 1 or len(two.outputs) != 1:
        return ""
    first, second = golden.values[one.outputs[0]], target.values[two.outputs[0]]
    if first.view is None or second.view is None or first.shape != second.shape:
        return ""
    if first.view.strides != second.view.strides or first.view.offset == second.view.offset:
        return ""
    return "it shows other elements:"


def other_module(golden: Step, missing: list[int], target: Step, extra: list[int]) -> str:
    """Words for a module that stands in the place of another one and computes the same; empty where none does."""
    modules = golden.ops[missing[0]].module, target.ops[extra[0]].module
    if not all(modules) or modules[0] == modules[1] or not same_names(golden, missing, target, extra):
        return ""
    return f"{modules[1]} runs in the place of {modules[0]}"
