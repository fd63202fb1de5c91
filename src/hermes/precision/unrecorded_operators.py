"""Explains results of modules and optimizer steps whose inner operators were not recorded."""

from __future__ import annotations

import math

import numpy as np

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.distance import Distance, Distances, between
from hermes.precision.judgement_rows import Suspect, SuspicionGround
from hermes.precision.messages import Deviation
from hermes.precision.recorded_step import OperatorCall, RecordedStep, RecordedValue
from hermes.precision.rounding_tolerance import GAIN

_SAME_GRADIENT = 1e-3
_OTHER_GRADIENT = 0.02
_OTHER_STEP = 0.01
"""The share of a step's length by which the steps of half the parameters must differ."""


class InnerDistances:
    """The largest distances inside each module so far: a module is not blamed for what its parts do."""

    def __init__(self, step: RecordedStep) -> None:
        self._worst: dict[str, float] = {}
        self._all = 0.0
        self._all_known = False
        self._operators = any(op.phase == "backward" and not op.name.startswith("gradient of ") for op in step.ops)
        """Whether operators of the backward pass were recorded, which tell more than gradients of modules do."""
        kinds = {name for name in {op.name for op in step.ops} if name.startswith(("module.", "gradient of "))}
        called = [op for op in step.ops if op.name in kinds] if kinds else []
        self._any = bool(called)
        modules = [op for op in called if op.name.startswith("module.") and "." not in op.module]
        self._given = {number for op in modules for number in op.inputs}

    def explains(self, op: OperatorCall, out: Distance) -> bool:
        """Whether an output's distance is explained by operators in its module, or by calls before the gradient."""
        if not self._any:
            return False
        if op.name.startswith("gradient of "):
            # The inputs of a gradient hook are not known: every earlier call may have contributed to it.
            return self._operators or out.relative <= GAIN * self._all
        return op.name.startswith("module.") and out.relative <= GAIN * self._worst.get(op.module, 0.0)

    def gradient(self, one: OperatorCall, two: OperatorCall, out: Distance) -> Suspect | None:
        """Blame code that changed a parameter's gradient after the backward pass, if no operators were recorded."""
        bad = out.nan_golden != out.nan_target or out.relative > max(_OTHER_GRADIENT, GAIN * self._all)
        if one.phase != "gradient" or self._operators or not self._all_known or not bad or out.known == "none":
            return None
        why = say.gradient_changed(parameter=one.parameter)
        return Suspect(golden=one.number, target=two.number, kind=Deviation.ANOTHER_FORMULA, why=why,
                       ground=SuspicionGround.ROUNDING, outputs=out, ratio=out.relative)  # fmt: skip

    def between(self, one: OperatorCall, value: RecordedValue) -> Message | None:
        """The message for a module's input that code between modules made; None if the input comes from elsewhere."""
        if not one.name.startswith("module.") or value.role or value.number in self._given or "." not in one.module:
            return None
        return say.code_between(module=one.module.rpartition(".")[0])

    def add(self, op: OperatorCall, inputs: list[Distance], outputs: list[Distance]) -> None:
        """Add the distances of a compared call to all modules around the call."""
        if not self._any:
            return
        seen = [*inputs, *outputs]
        apart = max((one.relative for one in seen if math.isfinite(one.relative)), default=0.0)
        if any(one.nan_golden != one.nan_target or one.what for one in seen):
            apart = math.inf
        if op.name.startswith(("module.", "gradient of ")):
            self._all = max(self._all, apart)
            self._all_known = self._all_known or op.phase == "backward"
        path = op.module if not op.name.startswith("module.") else op.module.rpartition(".")[0]
        while apart and path:
            self._worst[path] = max(self._worst.get(path, 0.0), apart)
            path = path.rpartition(".")[0]


def other_step(
    golden: RecordedStep, target: RecordedStep, mate: dict[int, int], distances: Distances
) -> Suspect | None:
    """Blame an optimizer that makes another step from the same gradients, if none of its operators were recorded."""
    if any(op.phase == "optimizer" for op in golden.ops):
        return None
    before = {value.name: value for value in reversed(golden.values) if value.role == "parameter"}
    gradients = {op.parameter: op for op in golden.ops if op.phase == "gradient" and op.outputs}
    found: list[tuple[float, OperatorCall, Distance]] = []
    for op in golden.ops:
        two = mate.get(op.number)
        gradient = gradients.get(op.parameter)
        if op.phase != "update" or two is None or gradient is None or op.parameter not in before or not op.outputs:
            continue
        other = mate.get(gradient.number)
        if other is None or not target.ops[other].outputs or not target.ops[two].outputs:
            continue
        came = distances.of(gradient.outputs[0], target.ops[other].outputs[0])
        if came.known == "none" or came.relative > _SAME_GRADIENT or came.what:
            return None
        went = distances.of(op.outputs[0], target.ops[two].outputs[0])
        length = between(before[op.parameter], golden.values[op.outputs[0]])
        if went.known != "none" and length is not None and length > 0:
            found.append((went.apart / length, op, went))
    if not found or np.median([ratio for ratio, _, _ in found]) < _OTHER_STEP:
        return None
    ratio, op, went = max(found, key=lambda one: one[0])
    share = float(np.median([one for one, _, _ in found]))
    return Suspect(golden=op.number, target=mate[op.number], kind=Deviation.ANOTHER_ARGUMENT,
                   why=say.other_step(share=share), ground=SuspicionGround.ROUNDING, outputs=went,
                   ratio=ratio)  # fmt: skip
