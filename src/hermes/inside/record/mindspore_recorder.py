"""Records programs of MindSpore: calls of cells, gradients, and optimizers' inputs and updates.

`Cell.__call__` is wrapped in recorded steps, and optimizers' calls as long as a step is still to be recorded. A cell
that is compiled to a graph does not call its parts. So programs run in PyNative mode while they are recorded, unless
you keep compiled code.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from hermes.inside.error_guard import Border
from hermes.inside.record.frames import Frames
from hermes.inside.record.journal import Journal, encode, encode_all, encode_values
from hermes.inside.record.mindspore_paths import CellPaths
from hermes.inside.record.mindspore_values import CellValues
from hermes.inside.record.options import Options
from hermes.inside.record.stats import state_print
from hermes.inside.record.tensor_files import TensorFiles
from hermes.inside.record.watch_numerics import Watch
from hermes.inside.warn_once import say


class CellRecorder:
    """A recorder of the MindSpore steps that the options name. A step ends with the step of the optimizer that stepped
    first."""

    def __init__(self, mindspore: Any, options: Options, *, rank: int, world: int) -> None:
        self.border = Border(self._give_up)
        self._mindspore = mindspore
        self.options = options
        self.step = 0
        self.recording = False
        self.failed = ""
        self._optimizers = optimizers_of(mindspore)
        self._paths = CellPaths(self._optimizers)
        self._frames = Frames()
        folder = os.path.abspath(os.path.join(options.out, f"rank{rank}"))  # noqa: PTH100, PTH118
        self._journal = Journal(folder, options, "mindspore", str(mindspore.__version__), rank=rank, world=world)
        self._pack = TensorFiles(folder, options.limit_bytes)
        self._values: CellValues | None = None
        self._watch = Watch() if options.ring else None
        self._ops: list[dict[str, Any]] = []
        self._first: int | None = None
        self._first_call = True
        self._eager: EagerMode | None = None
        self._in_optimizer = False
        self._module: int | None = None
        self._undo: list[tuple[Any, Any]] = []
        self._cell = mindspore.nn.Cell
        self._call = self._cell.__call__

    # -- steps

    def attach(self) -> None:
        """Wrap optimizers and, to begin the first step, the first call of a cell."""
        for kind in self._optimizers:
            self._undo.append((kind, kind.__dict__.get("__call__")))
            kind.__call__ = self.border.around(kind.__call__, self._steps, self._stepped_on)
        self._cell.__call__ = self._calling()
        if self.options.compiled == "eager" and "MS_JIT" not in os.environ:
            self._eager = EagerMode(self._mindspore, self.border)

    def detach(self) -> None:
        """Remove all wrappers from MindSpore."""
        for kind, before in self._undo:
            if before is None:
                del kind.__call__
            else:
                kind.__call__ = before
        self._undo = []
        self._cell.__call__ = self._call
        if self._eager is not None:
            self._eager.end()
            self._eager = None

    def begin(self) -> None:
        """Begin a step of the training; record it if the options name it."""
        if self.recording or self.failed or not self.options.wants_step(self.step):
            return
        if self._values is None:
            self._values = CellValues(self._mindspore, self.options, self._pack, self._paths.tensors)
        self._journal.open()
        self._ops = []
        self._values.begin()
        self._module = None
        self.recording = True
        self._journal.begin(encode({"step": self.step, "rng": self._random_state()}))
        self._pack.begin(self.step)
        self._cell.__call__ = self._calling()

    def end(self) -> None:
        """End a step of the training, and write its recording."""
        if self.recording:
            self.recording = False
            self._cell.__call__ = self._call
            if not self.failed:
                self._flush(whole=True)
        self.step += 1

    def close(self) -> None:
        """Close the recording at the job's end: an unfinished step is kept as it is."""
        if self.recording:
            self.recording = False
            self._flush(whole=False)
        broken = getattr(sys, "last_value", None)
        if self._journal.holds and broken is not None:
            self._journal.alarm(self.step, f"the program ended with {type(broken).__name__}")
        self._pack.end()

    @property
    def over(self) -> bool:
        """Whether no further step will be recorded."""
        last = self.options.last_step
        return bool(self.failed) or self._journal.over or (last is not None and self.step > last)

    # -- calls

    def _calling(self) -> Any:
        return self.border.around(self._call, self._called, self._returned)

    def _called(self, args: Any, kwargs: Any) -> tuple[int | None, int, dict[str, Any] | None] | None:
        cell, *given = args
        if self._first_call:
            self._begins()
        if not self.recording or self.failed or self._in_optimizer or isinstance(cell, self._optimizers):
            return None
        outer, step = self._module, self.step
        return outer, step, self.border.call(self._before, cell, given, kwargs)

    def _returned(self, given: Any, _args: Any, _kwargs: Any, result: Any, ended: bool) -> None:
        outer, step, op = given
        # An optimizer inside this call may have ended the step in which the call began.
        if self.recording and self.step == step:
            self._module = outer
            if ended and op is not None:
                self._after(op, result)

    def _begins(self) -> None:
        self._first_call = False
        self._cell.__call__ = self._call
        self.begin()

    def _steps(self, args: Any, _kwargs: Any) -> bool | None:
        if self._in_optimizer:
            return None
        optimizer, *given = args
        self.border.call(self._stepped, optimizer, given)
        self._in_optimizer = True
        return True

    def _stepped_on(self, _given: Any, args: Any, _kwargs: Any, _result: Any, ended: bool) -> None:
        self._in_optimizer = False
        if ended:
            self._ended(args[0])

    def _give_up(self, broken: Exception) -> None:
        """Stop recording for good: the job goes on without the recorder."""
        if not self.failed:
            self.failed = f"{type(broken).__name__}: {broken}"[:500]
            say(f"recording stopped in step {self.step}: {self.failed}")
            self._journal.append([encode({"failed": self.failed, "step": self.step})])

    def _before(self, cell: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        number = self._paths.number(cell, self._module)
        if number is None:
            return None  # This cell holds the optimizer: the cells that it calls count.
        self._module = number
        name = f"module.{type(cell).__name__}"
        if not self.options.wants(name, self._paths.name(number), "forward"):
            return None
        values = self._values
        assert values is not None
        op = self._new_op(name, "forward", number)
        given = values.tensors([args, kwargs])
        op["in"] = [values.of(one) for one in given]
        op["in"] += [values.of(one) for one in cell._params.values() if one is not None]
        self._on_gradient([one for one in given if id(one) not in self._paths.tensors], op, "inputs")
        return op

    def _after(self, op: dict[str, Any], result: Any) -> None:
        values = self._values
        assert values is not None
        op["done"] = len(self._ops)
        found = values.tensors(result)
        op["out"] = [values.of(one, op=op["n"]) for one in found]
        self._on_gradient(found, op, "outputs")

    def _on_gradient(self, found: list[Any], op: dict[str, Any], of: str) -> None:
        if "backward" not in self.options.phases:
            return
        step, number, module = self.step, op["n"], op.get("module")

        def arrived(at: int, gradient: Any) -> None:
            if not self.recording or self.step != step or self.failed or self._values is None:
                return
            line = self._new_op(f"gradient of {of}", "backward", module, number)
            line["place"] = at
            line["out"] = [self._values.of(one) for one in self._values.tensors(gradient)]

        for at, tensor in enumerate(found):
            if str(tensor.dtype).startswith(("Float", "BFloat")):
                # MindSpore continues with the value that a hook returns.
                tensor.register_hook(self.border.tap(partial(arrived, at)))

    def _stepped(self, optimizer: Any, args: Any) -> None:
        """Record an optimizer's gradients before the optimizer steps."""
        if self._first is None:
            self._first = id(optimizer)
        if not self.recording or self._values is None or "gradient" not in self.options.phases:
            return
        gradients = self._values.tensors(args)
        parameters = _parameters(optimizer)
        names = [self._paths.parameter(one) for one in parameters] if len(parameters) == len(gradients) else []
        for at, gradient in enumerate(gradients):
            self._of_parameter("gradient", names[at] if names else f"gradient {at}", gradient)

    def _ended(self, optimizer: Any) -> None:
        if self.recording and self._values is not None:
            self._values.forget()
            if "update" in self.options.phases:
                for parameter in _parameters(optimizer):
                    self._of_parameter("update", self._paths.parameter(parameter), parameter)
        if id(optimizer) != self._first:
            return
        self.end()
        if self.over:
            self.detach()
        else:
            self.begin()

    def _of_parameter(self, phase: str, name: str, tensor: Any) -> None:
        if self.options.wants(phase, name, phase) and self._values is not None:
            op = self._new_op(phase, phase, None)
            op["parameter"] = name
            op["out"] = [self._values.of(tensor)]

    def _new_op(self, name: str, phase: str, module: int | None, forward: int | None = None) -> dict[str, Any]:
        op: dict[str, Any] = {"op": name, "n": len(self._ops), "phase": phase}
        if module is not None:
            op["module"] = module
        if forward is not None:
            op["for"] = forward
            op["stack"] = self._ops[forward]["stack"]
        elif phase == "forward":
            op["stack"] = self._frames.here(2)
        op["in"], op["out"] = [], []
        self._ops.append(op)
        return op

    # -- writing

    def _random_state(self) -> str:
        state = getattr(self._mindspore, "get_rng_state", None)
        return state_print(state().asnumpy().tobytes()) if state is not None else ""

    def _flush(self, *, whole: bool) -> None:
        values = self._values
        assert values is not None
        self._journal.append(encode_all([*self._paths.new(), *self._frames.new()]))
        body = encode_values(values.lines) + encode_all(self._ops)
        if whole:
            body.append(encode({"end": self.step, "dropped": values.dropped}))
        self._journal.write(body)
        self._pack.end()
        if self._watch is not None and whole and (reason := self._watch.look(values.lines, self._ops)):
            self._journal.alarm(self.step, reason)
        self._ops = []
        values.begin()


class EagerMode:
    """A switch that makes a MindSpore program run cell by cell, until `end` restores the mode that the program has
    set."""

    def __init__(self, mindspore: Any, border: Border) -> None:
        self._mindspore = mindspore
        self._set = mindspore.context.set_context
        self._mode = mindspore.get_context("mode")
        os.environ["MS_JIT"] = "0"
        self._set(mode=mindspore.PYNATIVE_MODE)

        def eager(_args: Any, given: Any) -> None:
            if "mode" in given:
                self._mode = given["mode"]
                given["mode"] = mindspore.PYNATIVE_MODE

        # `given` are the keyword arguments of the original function.
        mindspore.context.set_context = mindspore.set_context = border.around(self._set, eager)

    def end(self) -> None:
        """Restore the mode that the program wants."""
        mindspore = self._mindspore
        mindspore.context.set_context = mindspore.set_context = self._set
        os.environ.pop("MS_JIT", None)
        self._set(mode=self._mode)


def optimizers_of(mindspore: Any) -> tuple[Any, ...]:
    """The base classes of optimizers: those of `nn`, and those with torch's spelling."""
    found = [mindspore.nn.Optimizer]
    other = sys.modules.get("mindspore.experimental.optim.optimizer") or sys.modules.get("mindspore.experimental.optim")
    if other is not None and hasattr(other, "Optimizer"):
        found.append(other.Optimizer)
    return tuple(found)


def _parameters(optimizer: Any) -> list[Any]:
    found = getattr(optimizer, "parameters", None)
    return list(found) if isinstance(found, (list, tuple)) else []
