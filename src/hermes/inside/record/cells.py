"""Records programs of MindSpore: calls of cells, gradients, and what optimizers take and leave.

`Cell.__call__` is wrapped in recorded steps, that of optimizers as long as a step is to be recorded. A cell that a
graph is compiled from runs without its parts being called, so programs run in PyNative mode while they are recorded,
unless compiled code is to be kept.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from hermes.inside.border import Border
from hermes.inside.record.cellpaths import CellPaths
from hermes.inside.record.cellvalues import CellValues
from hermes.inside.record.frames import Frames
from hermes.inside.record.journal import Journal, encode, encode_all, encode_values
from hermes.inside.record.options import Options
from hermes.inside.record.pack import Pack
from hermes.inside.record.stats import state_print
from hermes.inside.record.watch import Watch
from hermes.inside.say import say


class CellRecorder:
    """Records the steps that the options name. A step ends with the step of the optimizer that stepped first."""

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
        self._pack = Pack(folder, options.limit_bytes)
        self._values: CellValues | None = None
        self._watch = Watch() if options.ring else None
        self._ops: list[dict[str, Any]] = []
        self._first: int | None = None
        self._first_call = True
        self._eager: Eager | None = None
        self._in_optimizer = False
        self._module: int | None = None
        self._undo: list[tuple[Any, Any]] = []
        self._cell = mindspore.nn.Cell
        self._call = self._cell.__call__

    # -- steps

    def attach(self) -> None:
        """Follow optimizers and, for the first step, the first call of a cell."""
        for kind in self._optimizers:
            self._undo.append((kind, kind.__dict__.get("__call__")))
            kind.__call__ = self.border.around(kind.__call__, self._steps, self._stepped_on)
        self._cell.__call__ = self._calling()
        if self.options.compiled == "eager" and "MS_JIT" not in os.environ:
            self._eager = Eager(self._mindspore, self.border)

    def detach(self) -> None:
        """Nothing is left behind in MindSpore."""
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
        """A step begins, recorded or not."""
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
        """A step is complete."""
        if self.recording:
            self.recording = False
            self._cell.__call__ = self._call
            if not self.failed:
                self._flush(whole=True)
        self.step += 1

    def close(self) -> None:
        """The job ends: what was recorded of a step that did not end is kept as it is."""
        if self.recording:
            self.recording = False
            self._flush(whole=False)
        broken = getattr(sys, "last_value", None)
        if self._journal.holds and broken is not None:
            self._journal.alarm(self.step, f"the program ended with {type(broken).__name__}")
        self._pack.end()

    @property
    def over(self) -> bool:
        """Whether nothing more will be recorded."""
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
        # An optimizer inside of this call may have ended the step that it began in.
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
        """Stop recording for good: the job goes on without."""
        if not self.failed:
            self.failed = f"{type(broken).__name__}: {broken}"[:500]
            say(f"recording stopped in step {self.step}: {self.failed}")
            self._journal.append([encode({"failed": self.failed, "step": self.step})])

    def _before(self, cell: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        number = self._paths.number(cell, self._module)
        if number is None:
            return None  # it holds the optimizer: what it calls counts
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
                # MindSpore goes on with what a hook gives back.
                tensor.register_hook(self.border.tap(partial(arrived, at)))

    def _stepped(self, optimizer: Any, args: Any) -> None:
        """An optimizer is about to step."""
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


class Eager:
    """Lets a program run cell by cell, whatever it says of its mode, until `end` gives it what it said."""

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

        # `given` is what the original is called with.
        mindspore.context.set_context = mindspore.set_context = border.around(self._set, eager)

    def end(self) -> None:
        """As the program wants it."""
        mindspore = self._mindspore
        mindspore.context.set_context = mindspore.set_context = self._set
        os.environ.pop("MS_JIT", None)
        self._set(mode=self._mode)


def optimizers_of(mindspore: Any) -> tuple[Any, ...]:
    """The classes that optimizers come from: those of `nn`, and those that are spelled as torch spells them."""
    found = [mindspore.nn.Optimizer]
    other = sys.modules.get("mindspore.experimental.optim.optimizer") or sys.modules.get("mindspore.experimental.optim")
    if other is not None and hasattr(other, "Optimizer"):
        found.append(other.Optimizer)
    return tuple(found)


def _parameters(optimizer: Any) -> list[Any]:
    found = getattr(optimizer, "parameters", None)
    return list(found) if isinstance(found, (list, tuple)) else []
