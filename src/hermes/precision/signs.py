"""What one operator of two runs shows by itself: casts, agreement of inputs, only rounding."""

from __future__ import annotations

import math
from dataclasses import replace

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.arguments import Change
from hermes.precision.distance import Distance
from hermes.precision.judgement import Ground, Suspect, badness
from hermes.precision.messages import Deviation, Side
from hermes.precision.model import Json, Op, Step
from hermes.precision.names import arithmetic, family, fills_a_part, is_cast, is_collective, is_empty
from hermes.precision.noise import roundoff
from hermes.precision.read.tensors import Files

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


def kind_of(one: Op, two: Op, out: Distance, different: Change | None) -> tuple[Deviation, Message]:
    """Of what kind a difference is that an operator added, and why."""
    if one.random != two.random:
        return Deviation.ANOTHER_RANDOMNESS, say.RANDOM_STATE
    if one.random == "":
        return Deviation.ANOTHER_RANDOMNESS, say.RANDOM_UNKNOWN
    if out.nan_golden != out.nan_target and not gives_infinity(two if out.nan_target > out.nan_golden else one):
        side = Side.TARGET if out.nan_target > out.nan_golden else Side.GOLDEN
        return Deviation.NOT_FINITE, say.not_finite(n=abs(int(out.nan_target - out.nan_golden)), side=side.message)
    change = different.message if different else None
    if is_collective(one.name):
        return Deviation.ANOTHER_REDUCTION, change or say.COLLECTIVE_RESULT
    if out.what == "shape":
        return Deviation.ANOTHER_SHAPE, say.SHAPE
    if out.scale is not None:
        return Deviation.SCALE, say.scaled(factor=out.scale)
    fewer = narrow(out)
    if fewer:
        return Deviation.ANOTHER_DTYPE, say.fewer_digits(dtype=fewer)
    return Deviation.ANOTHER_FORMULA, change or say.RESULTS_DIFFER


def suspect(
    one: Op, two: Op, kind: Deviation, why: Message, inputs: list[Distance], out: Distance, ratio: float
) -> Suspect:
    """An operator to blame, and how sure that is."""
    equal = all(one.equal for one in inputs if one.known != "none")
    named = kind in (Deviation.ANOTHER_ARGUMENT, Deviation.ANOTHER_DTYPE)
    if equal and (ratio > 10 or kind is Deviation.ANOTHER_ARGUMENT):
        ground = Ground.EXACT
    else:
        ground = Ground.ROUNDING if named or ratio > 3 else Ground.NEAR
    return Suspect(
        golden=one.number, target=two.number, kind=kind, why=why, ground=ground, ratio=ratio,
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


def dropped(one: Op, two: Op, side: Side, culprit: int | None) -> Suspect:
    """A parameter that has a gradient on one side alone; `culprit` is the operator of the target that cut it off."""
    found = Suspect(
        golden=one.number, target=two.number, kind=Deviation.DROPPED_GRADIENT, ground=Ground.ROUNDING, ratio=math.inf,
        why=say.no_gradient(parameter=one.parameter, side=side.message),
    )  # fmt: skip
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


def birth(step: Step, extra: list[int], files: Files) -> int | None:
    """The first of these operators that makes a NaN of numbers, or infinity of finite numbers and arguments."""
    for at in sorted(extra):
        op = step.ops[at]
        came, went = ([files.not_finite(step, one) for one in places] for places in (op.inputs, op.outputs))
        if any(nan for nan, _ in went) and not any(nan for nan, _ in came):
            return at
        if any(inf for _, inf in went) and not any(nan or inf for nan, inf in came) and not gives_infinity(op):
            return at
    return None


def gives_infinity(op: Op) -> bool:
    """Whether an argument of the call is infinite: then infinity among its results is meant to be there."""
    waiting: list[Json] = [op.args]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (list, dict)):
            waiting += one.values() if isinstance(one, dict) else one
        elif one in _INFINITE:
            return True
    return False


_INFINITE = ("inf", "-inf", math.inf, -math.inf)


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
    why = say.other_result(
        operator=family(one.name), maker=family(golden.ops[maker].name), golden=at[0], target=at[1]
    )  # fmt: skip
    return Suspect(golden=one.number, target=two.number, kind=Deviation.ANOTHER_FORMULA, why=why,
                   ground=Ground.EXACT if exact else Ground.ROUNDING, ratio=math.inf)  # fmt: skip


def other_place(golden: Step, target: Step, one: Op, two: Op) -> bool:
    """Whether a view shows other elements of the same memory."""
    if len(one.outputs) != 1 or len(two.outputs) != 1:
        return False
    first, second = golden.values[one.outputs[0]], target.values[two.outputs[0]]
    if first.view is None or second.view is None or first.shape != second.shape:
        return False
    return first.view.strides == second.view.strides and first.view.offset != second.view.offset


def other_module(golden: Step, missing: list[int], target: Step, extra: list[int]) -> Message | None:
    """A module that stands in the place of another one and computes the same; None where none does."""
    modules = golden.ops[missing[0]].module, target.ops[extra[0]].module
    if not all(modules) or modules[0] == modules[1] or not same_names(golden, missing, target, extra):
        return None
    return say.other_module(golden=modules[0], target=modules[1])
