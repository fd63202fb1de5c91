"""Records one torch process: follows step, phase and module of the job, and writes the requested tensors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes.inside.error_guard import Border
from hermes.inside.record.arithmetic import Arithmetic
from hermes.inside.record.frames import Frames
from hermes.inside.record.journal import Journal, encode, encode_all, encode_values
from hermes.inside.record.module_paths import Paths
from hermes.inside.record.modules import Modules
from hermes.inside.record.operators import Operators, make_mode
from hermes.inside.record.options import Options
from hermes.inside.record.tensor_files import TensorFiles
from hermes.inside.record.values import Values
from hermes.inside.record.watch_numerics import Watch
from hermes.inside.warn_once import say


class Recorder:
    """A recorder of the steps that the options name. A step ends with the step of the optimizer that stepped first.

    `begin` and `end` are called for every step of the job, and do nothing in a step that is not recorded.
    """

    def __init__(self, torch: Any, options: Options, *, rank: int, world: int) -> None:
        self.border = Border(self._give_up)
        self.torch = torch
        self.options = options
        self.step = 0
        self.recording = False
        self.failed = ""
        self.in_optimizer = self.in_function = False
        self.module: int | None = None
        self.paths = Paths()
        self.arithmetic = (
            Arithmetic(torch, options.arithmetic, options.seed + rank) if options.arithmetic != "own" else None
        )
        self._frames = Frames()
        folder = os.path.abspath(os.path.join(options.out, f"rank{rank}"))  # noqa: PTH100, PTH118
        self._journal = Journal(folder, options, "pytorch", str(torch.__version__), rank=rank, world=world)
        self._pack = TensorFiles(folder, options.limit_bytes)
        self.values = Values(torch, options, self._pack, self.paths)
        self._operators = Operators(self, torch)
        self._modules = Modules(self, torch)
        self._mode: Any = None
        self._ops: list[Any] = []
        self.stacks: list[int | None] = []
        """The number of the stack of each operator of the step."""
        self._watch = Watch() if options.ring else None
        self._lock = threading.RLock()

    # -- steps

    def begin(self) -> None:
        """Begin a step of the training; record it if the options name it."""
        if self.recording or self.failed or not self.options.wants_step(self.step):
            return
        self._journal.open()  # not before: a launcher loads torch too, and must not make a recording
        self._ops, self.stacks = [], []
        self.values.begin()
        self._operators.begin()
        self.recording = True
        rng = self._operators.host_random_state()
        self._journal.begin(encode({"step": self.step, "rng": rng}))
        self._pack.begin(self.step)
        self._modules.attach()
        if self.options.compiled == "eager":
            self._stance("force_eager")
        if self.options.operators:
            if self._mode is None:
                self._mode = make_mode(self, self.torch)
            self._mode.__enter__()

    def end(self) -> None:
        """End a step of the training, and write its recording."""
        if self.recording:
            self.recording = False
            self._leave()
            if not self.failed:
                self._flush()
        self.step += 1

    def close(self) -> None:
        """Close the recording at the job's end: an unfinished step is kept as it is."""
        if self.recording:
            self.recording = False
            self._leave()
            self._flush(whole=False)
        broken = getattr(sys, "last_value", None)
        if self._journal.holds and broken is not None:
            self.alarm(f"the program ended with {type(broken).__name__}")
        self._pack.end()

    @property
    def over(self) -> bool:
        """Whether no further step will be recorded."""
        last = self.options.last_step
        return bool(self.failed) or self._journal.over or (last is not None and self.step > last)

    def alarm(self, reason: str) -> None:
        """Write the steps that the ring holds, because the watch saw a fault."""
        self._journal.alarm(self.step, reason)

    # -- what happens inside of a step

    def operator(self, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Run one operator by `call`, and record it."""
        with self._lock:
            return self._operators.call(call, func, args, kwargs)

    def new_op(self, name: str, phase: str, module: int | None, forward: int | None = None) -> dict[str, Any]:
        """A new line for a call that begins now."""
        op: dict[str, Any] = {"op": name, "n": len(self._ops), "phase": phase}
        stack: int | None = None
        if module is not None:
            op["module"] = module
        if forward is not None:
            op["for"] = forward
            stack = self.stacks[forward]
        elif phase in ("forward", "optimizer"):
            stack = self._frames.here(2)
        if phase == "backward" and (self.in_function or self.module is not None):
            # An autograd function that the user wrote, or a recomputation, has code lines of its own.
            own = self._frames.inside_backward(2)
            stack = stack if own is None else own
        if stack is not None:
            op["stack"] = stack
        op["in"], op["out"] = [], []
        self._ops.append(op)
        self.stacks.append(stack)
        return op

    def complete(self, op: dict[str, Any]) -> None:
        """Finish the line of a call: encode it as text, unless the watch will read it."""
        if self._watch is None:
            self._ops[op["n"]] = encode(op)

    def gradients(self, optimizer: Any) -> None:
        """Record the gradients that an optimizer is about to use."""
        if not self.recording or "gradient" not in self.options.phases:
            return
        self.paths.refresh()
        self._of_parameters(optimizer, "gradient", lambda parameter: parameter.grad)

    def updates(self, optimizer: Any) -> None:
        """Record the parameters after an optimizer's step."""
        if self.recording and "update" in self.options.phases:
            self._of_parameters(optimizer, "update", lambda parameter: parameter)

    def _give_up(self, broken: Exception) -> None:
        """Stop recording for good: the job goes on without the recorder."""
        if not self.failed:
            self.failed = f"{type(broken).__name__}: {broken}"[:500]
            say(f"recording stopped in step {self.step}: {self.failed}")
            if self._mode is None or self._is_on_top():
                # Otherwise the mode is left when the step ends: an operator is under way.
                self.recording = False
                self._leave()
            self._journal.append([encode({"failed": self.failed, "step": self.step})])

    def _of_parameters(self, optimizer: Any, phase: str, pick: Any) -> None:
        with self._lock, self._off():
            for group_number, group in enumerate(optimizer.param_groups):
                for number, parameter in enumerate(group["params"]):
                    tensor = pick(parameter)
                    name = self._parameter_name(parameter) or f"group {group_number}, parameter {number}"
                    if not self.options.wants(phase, name, phase):
                        continue
                    op = self.new_op(phase, phase, None)
                    op["parameter"] = name
                    if tensor is not None:
                        found = self.values.of(tensor.coalesce().values() if tensor.is_sparse else tensor)
                        op["out"] = [] if found is None else [found]
                    self.complete(op)

    def _parameter_name(self, parameter: Any) -> str:
        from hermes.inside.record.module_paths import local_tensor

        local = local_tensor(parameter)
        return self.paths.tensors.get(local.data_ptr(), ("", ""))[0] if local is not None else ""

    @contextmanager
    def _off(self) -> Iterator[None]:
        """Turn recording and autograd off for Hermes' own operators."""
        torch = self.torch
        before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            if self._mode is None:
                yield
            else:
                with torch.utils._python_dispatch._disable_current_modes():
                    yield
        finally:
            torch._C._set_grad_enabled(before)

    # -- ending and writing

    def _leave(self) -> None:
        # Where one mode or hook fails to close, the others must still be closed.
        for part in (self._modules.detach, self._leave_mode, self._leave_stance):
            self.border.call(part)
        self.module = None

    def _leave_mode(self) -> None:
        if self._mode is not None and self._is_on_top():
            self._mode.__exit__(None, None, None)
        # Otherwise the user entered another mode on top: the recorder's mode stays below, and passes everything
        # through.
        self._mode = None

    def _is_on_top(self) -> bool:
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        return _get_current_dispatch_mode() is self._mode

    def _leave_stance(self) -> None:
        if self.options.compiled == "eager":
            self._stance("default")

    def _stance(self, name: str) -> None:
        stance = getattr(self.torch.compiler, "set_stance", None)
        if stance is not None and "torch._dynamo" in sys.modules:
            stance(name)

    def _flush(self, *, whole: bool = True) -> None:
        self.values.collect()
        lines = [*self.paths.new(), *self._frames.new()]
        self._journal.append(encode_all(lines))
        body = encode_values(self.values.lines) + encode_all(self._ops)
        if whole:
            body.append(encode({"end": self.step, "dropped": self.values.dropped}))
        self._journal.write(body)
        self._pack.end()
        if self._watch is not None and whole and (reason := self._watch.look(self.values.lines, self._ops)):
            self.alarm(reason)
        self._ops, self.stacks = [], []
        self.values.begin()
        self.paths.forget() if self.over else None
