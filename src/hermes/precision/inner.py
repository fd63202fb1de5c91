"""What is known of the inside of a module, and of the steps of an optimizer whose operators were not recorded."""

from __future__ import annotations

import math

import numpy as np

from hermes.base.message import Message
from hermes.precision import messages as say
from hermes.precision.distance import Distance, Distances, between
from hermes.precision.judgement import Ground, Suspect
from hermes.precision.messages import Deviation
from hermes.precision.model import Op, Step, Value
from hermes.precision.noise import GAIN

_SAME_GRADIENT = 1e-3
_OTHER_GRADIENT = 0.02
_OTHER_STEP = 0.01
"""Of the length of a step, by which those of half of the parameters must differ."""


class Inner:
    """How far apart results were inside of each module so far: a module is not to blame for what its parts do."""

    def __init__(self, step: Step) -> None:
        self._worst: dict[str, float] = {}
        self._all = 0.0
        self._all_known = False
        self._operators = any(op.phase == "backward" and not op.name.startswith("gradient of ") for op in step.ops)
        """Whether operators of the backward pass were recorded, which tell more than gradients of modules."""
        kinds = {name for name in {op.name for op in step.ops} if name.startswith(("module.", "gradient of "))}
        called = [op for op in step.ops if op.name in kinds] if kinds else []
        self._any = bool(called)
        modules = [op for op in called if op.name.startswith("module.") and "." not in op.module]
        self._given = {number for op in modules for number in op.inputs}

    def explains(self, op: Op, out: Distance) -> bool:
        """Whether it differs no more than what ran in the module, or came before the gradient, makes it differ."""
        if not self._any:
            return False
        if op.name.startswith("gradient of "):
            # Nobody knows what a hook of a gradient got it from: all that came before may be in it.
            return self._operators or out.relative <= GAIN * self._all
        return op.name.startswith("module.") and out.relative <= GAIN * self._worst.get(op.module, 0.0)

    def gradient(self, one: Op, two: Op, out: Distance) -> Suspect | None:
        """Somebody changed a parameter's gradient behind the backward pass, where no operators were recorded."""
        bad = out.nan_golden != out.nan_target or out.relative > max(_OTHER_GRADIENT, GAIN * self._all)
        if one.phase != "gradient" or self._operators or not self._all_known or not bad or out.known == "none":
            return None
        why = say.gradient_changed(parameter=one.parameter)
        return Suspect(golden=one.number, target=two.number, kind=Deviation.ANOTHER_FORMULA, why=why,
                       ground=Ground.ROUNDING, outputs=out, ratio=out.relative)  # fmt: skip

    def between(self, one: Op, value: Value) -> Message | None:
        """An input of a module that the code between modules made; None where it came from elsewhere."""
        if not one.name.startswith("module.") or value.role or value.number in self._given or "." not in one.module:
            return None
        return say.code_between(module=one.module.rpartition(".")[0])

    def add(self, op: Op, inputs: list[Distance], outputs: list[Distance]) -> None:
        """A call was compared: its distances count for all modules around it."""
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


def other_step(golden: Step, target: Step, mate: dict[int, int], distances: Distances) -> Suspect | None:
    """An optimizer that makes another step of the same gradients, where none of its operators were recorded."""
    if any(op.phase == "optimizer" for op in golden.ops):
        return None
    before = {value.name: value for value in reversed(golden.values) if value.role == "parameter"}
    gradients = {op.parameter: op for op in golden.ops if op.phase == "gradient" and op.outputs}
    found: list[tuple[float, Op, Distance]] = []
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
                   why=say.other_step(share=share), ground=Ground.ROUNDING, outputs=went, ratio=ratio)  # fmt: skip
