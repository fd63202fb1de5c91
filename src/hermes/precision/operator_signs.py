"""Signs of a cause in one pair of operators: casts, agreement of inputs, only rounding."""

from __future__ import annotations

import math
from dataclasses import replace

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.argument_changes import Change
from hermes.precision.distance import Distance
from hermes.precision.judgement_rows import Suspect, SuspicionGround, badness
from hermes.precision.messages import Deviation, Side
from hermes.precision.operator_names import arithmetic, family, fills_a_part, is_cast, is_collective, is_empty
from hermes.precision.read.tensors import Files
from hermes.precision.recorded_step import Json, OperatorCall, RecordedStep
from hermes.precision.rounding_tolerance import roundoff

_SOURCES = 64
_NEAR, _FAR = 2.0**-17, 0.01
"""The distance of inputs that float32 sums may have, and a distance of outputs that no operator explains from it."""


def narrow(out: Distance) -> str:
    """A type whose rounding of each element would give this distance; needs the elements to tell."""
    if out.changed is None or out.changed < 0.5:
        return ""
    for dtype, unit in (("bfloat16", 2.0**-9), ("float16 or TF32", 2.0**-12)):
        if 0.25 * unit <= out.relative <= 1.2 * unit:
            return dtype
    return ""


def kind_of(one: OperatorCall, two: OperatorCall, out: Distance, different: Change | None) -> tuple[Deviation, Message]:
    """The kind of the difference that an operator added, and the reason."""
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
    one: OperatorCall,
    two: OperatorCall,
    kind: Deviation,
    why: Message,
    inputs: list[Distance],
    out: Distance,
    ratio: float,
) -> Suspect:
    """The operator as a suspect, with the evidence behind it."""
    equal = all(one.equal for one in inputs if one.known != "none")
    named = kind in (Deviation.ANOTHER_ARGUMENT, Deviation.ANOTHER_DTYPE)
    if equal and (ratio > 10 or kind is Deviation.ANOTHER_ARGUMENT):
        ground = SuspicionGround.EXACT
    else:
        ground = SuspicionGround.ROUNDING if named or ratio > 3 else SuspicionGround.NEAR
    return Suspect(
        golden=one.number, target=two.number, kind=kind, why=why, ground=ground, ratio=ratio,
        inputs=max(inputs, key=badness, default=None), outputs=out,
    )  # fmt: skip


def inputs_agree(inputs: list[Distance]) -> bool:
    """Whether all known inputs are equal."""
    return all((one.known == "none" and not one.what) or one.equal for one in inputs)


def only_rounding(inputs: list[Distance], ratio: float) -> bool:
    """Whether inputs differ no more than rounding explains, a difference that the outputs' tolerance includes."""
    return (
        all(not one.what and one.nan_golden == one.nan_target and one.relative < 0.05 for one in inputs) and ratio > 1
    )


def far_beyond(inputs: list[Distance], out: Distance) -> bool:
    """Whether outputs are far apart though inputs are close, as far as their statistics tell.

    A tolerance grows with the distance of the inputs, and numbers such as a mask of -1e9 hide much of that distance.
    """
    if out.what or out.nan_golden != out.nan_target or not math.isfinite(out.relative):
        return False
    near = all(not one.what and one.nan_golden == one.nan_target and one.relative <= _NEAR for one in inputs)
    return near and out.relative >= _FAR


def dropped(one: OperatorCall, two: OperatorCall, side: Side, culprit: int | None) -> Suspect:
    """Blame for a parameter with a gradient on only one side; `culprit` is the target's operator that cut it off."""
    found = Suspect(
        golden=one.number, target=two.number, kind=Deviation.DROPPED_GRADIENT, ground=SuspicionGround.ROUNDING,
        ratio=math.inf,
        why=say.no_gradient(parameter=one.parameter, side=side.message),
    )  # fmt: skip
    return found if culprit is None else replace(found, golden=None, target=culprit)


def detach_only_in_target(target: RecordedStep, pairs: list[tuple[int | None, int | None]]) -> int | None:
    """The index of a `detach` that only the target runs in the forward pass; None if there is none."""
    for one, two in pairs:
        if one is None and two is not None:
            op = target.ops[two]
            if op.phase == "forward" and family(op.name) == "detach":
                return two
    return None


def first_infinity(inputs: list[Distance], out: Distance) -> bool:
    """Whether NaN or infinity comes out on only one side, and no input has one, however far apart the inputs are."""
    return out.nan_golden != out.nan_target and not any(one.nan_golden or one.nan_target for one in inputs)


def casts(step: RecordedStep, places: list[int]) -> str:
    """The type of fewest digits to which these operators cast a tensor to fewer digits; empty if there is none."""
    found = []
    for at in places:
        op = step.ops[at]
        if op.inputs and op.outputs and is_cast(op.name):
            kinds = step.values[op.inputs[-1]].dtype, step.values[op.outputs[0]].dtype
            found += [kinds[1]] if roundoff(kinds[1]) > roundoff(kinds[0]) else []
    return max(found, key=roundoff, default="")


def unfilled(step: RecordedStep) -> frozenset[int]:
    """Values that show uninitialised memory, or scratch memory that a recurrent layer keeps for itself."""
    if not any(is_empty(name) or "rnn" in name for name in {op.name for op in step.ops}):
        return frozenset()
    empty = {op.number for op in step.ops if is_empty(op.name) or fills_a_part(op.name)}
    scratch = {op.number for op in step.ops if "rnn" in op.name}
    made = ((value, root_maker(step, value.number)) for value in step.values)
    return frozenset(value.number for value, at in made if at in empty or (at in scratch and value.dtype == "uint8"))


def root_maker(step: RecordedStep, number: int) -> int | None:
    """The index of the operator that made a value, or that made the base of a view."""
    value = step.values[number]
    depth = 0
    while value.view is not None and depth < 64:
        value, depth = step.values[value.view.base], depth + 1
    return value.by if value.by is not None and value.by < len(step.ops) else None


def sources(step: RecordedStep, maker: int | None, paired: dict[int, int]) -> tuple[list[int], list[int]]:
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


def birth(step: RecordedStep, extra: list[int], files: Files) -> int | None:
    """The first of these operators that makes a NaN of numbers, or infinity of finite numbers and arguments."""
    for at in sorted(extra):
        op = step.ops[at]
        came, went = ([files.not_finite(step, one) for one in places] for places in (op.inputs, op.outputs))
        if any(nan for nan, _ in went) and not any(nan for nan, _ in came):
            return at
        if any(inf for _, inf in went) and not any(nan or inf for nan, inf in came) and not gives_infinity(op):
            return at
    return None


def gives_infinity(op: OperatorCall) -> bool:
    """Whether an argument of the call is infinite: then infinity in its results is intended."""
    waiting: list[Json] = [op.args]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (list, dict)):
            waiting += one.values() if isinstance(one, dict) else one
        elif one in _INFINITE:
            return True
    return False


_INFINITE = ("inf", "-inf", math.inf, -math.inf)


def only_casts(golden: RecordedStep, steps: list[int], target: RecordedStep, more: list[int]) -> bool:
    """Whether a block only changes types and places of tensors."""
    return all(is_cast(op.name) for op in [target.ops[at] for at in more] + [golden.ops[at] for at in steps])


def same_names(golden: RecordedStep, missing: list[int], target: RecordedStep, extra: list[int]) -> bool:
    """Whether a block runs the same arithmetic on both sides."""
    names, others = (
        [family(step.ops[at].name) for at in places if arithmetic(step.ops[at].name) != "moves"]
        for step, places in ((golden, missing), (target, extra))
    )
    return bool(names) and names == others


def rounds(step: RecordedStep, at: int, unit: float) -> float:
    """How often an operator of a block rounds, in roundings of the block's result."""
    op = step.ops[at]
    if arithmetic(op.name) == "moves" or not op.outputs:
        return 0.0
    return min(roundoff(step.values[op.outputs[0]].dtype) / unit, 1.0) if unit else 1.0


def other_result(
    golden: RecordedStep, target: RecordedStep, one: OperatorCall, two: OperatorCall, pair: tuple[int, int], exact: bool
) -> Suspect | None:
    """Blame an operator that takes the results of another operator in other places, such as parts in another order."""
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
                   ground=SuspicionGround.EXACT if exact else SuspicionGround.ROUNDING, ratio=math.inf)  # fmt: skip


def other_place(golden: RecordedStep, target: RecordedStep, one: OperatorCall, two: OperatorCall) -> bool:
    """Whether a view shows other elements of the same memory on the two sides."""
    if len(one.outputs) != 1 or len(two.outputs) != 1:
        return False
    first, second = golden.values[one.outputs[0]], target.values[two.outputs[0]]
    if first.view is None or second.view is None or first.shape != second.shape:
        return False
    return first.view.strides == second.view.strides and first.view.offset != second.view.offset


def other_module(golden: RecordedStep, missing: list[int], target: RecordedStep, extra: list[int]) -> Message | None:
    """The message that a module replaces another one with the same arithmetic; None if there is none."""
    modules = golden.ops[missing[0]].module, target.ops[extra[0]].module
    if not all(modules) or modules[0] == modules[1] or not same_names(golden, missing, target, extra):
        return None
    return say.other_module(golden=modules[0], target=modules[1])
