"""Starts a recording: in a process that `hermes precision record` started, or where the user's code asks for it."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import sys
from typing import Any

from hermes.inside.error_guard import Border
from hermes.inside.record.options import Options, from_environment
from hermes.inside.warn_once import say

_active: list[Any] = []
_BORDER = Border(lambda broken: say(f"not recorded: {type(broken).__name__}: {broken}"))


class Steps:
    """The hooks that turn steps of optimizers into steps of the recorder."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self._border: Border = recorder.border
        self._first: int | None = None
        self._called_now = False
        self._handles: list[Any] = []

    def attach(self, torch: Any) -> None:
        """Hook all optimizers and, to begin the first step, the first call of a module."""
        optimizers = importlib.import_module("torch.optim.optimizer")
        entry = self._border.entry
        before, after, called = entry(self._before), entry(self._after), entry(self._called)
        for hook in (before, after, called):
            vars(hook)["_torchdynamo_disable"] = True
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(before),
            optimizers.register_optimizer_step_post_hook(after),
        ]
        if self._recorder.options.wants_step(0):
            self._handles.append(torch.nn.modules.module.register_module_forward_pre_hook(called))

    def detach(self) -> None:
        """Remove all hooks from torch; a hook that cannot be removed while torch calls hooks does nothing."""
        for handle in self._handles:
            hooks = handle.hooks_dict_ref() or {}
            if self._called_now and handle.id in hooks and next(reversed(hooks)) != handle.id:
                hooks[handle.id] = _nothing
            else:
                handle.remove()
        self._handles = []

    def _called(self, module: Any, args: Any) -> None:
        # The first call begins step 0; the hook that numbers modules comes after this hook, and is called by hand once.
        self._handles.pop().remove()
        if self._recorder.step == 0 and not self._recorder.recording:
            self._recorder.begin()
            if self._recorder.recording:
                self._recorder._modules._before(module, args)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder = self._recorder
        if self._first is None:
            self._first = id(optimizer)
        if recorder.recording:
            recorder.gradients(optimizer)
            recorder.in_optimizer = True

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        recorder = self._recorder
        recorder.in_optimizer = False
        if recorder.recording:
            # A step ends even if recording the step failed.
            self._border.call(recorder.updates, optimizer)
        if id(optimizer) != self._first:
            return
        self._border.call(recorder.end)
        if recorder.over:
            self._called_now = True
            self.detach()
        else:
            recorder.begin()


def _nothing(*_: object) -> None:
    """Do nothing after a step of an optimizer."""


def rank() -> tuple[int, int]:
    """Rank and number of ranks, from the launcher's environment."""
    found = [os.environ.get(one, "") for one in ("RANK", "WORLD_SIZE")]
    numbers = [int(one) if one.isdigit() else None for one in found]
    return numbers[0] or 0, numbers[1] or 1


def start(framework: Any, options: Options) -> Any:
    """A recorder that follows the job's optimizers from now on; None where the options leave this rank out."""
    number, world = rank()
    if options.ranks is not None and number not in options.ranks:
        return None
    if claimed("HERMES_RECORD"):
        return None
    if framework.__name__ == "mindspore":
        from hermes.inside.record.mindspore_recorder import CellRecorder

        recorder: Any = CellRecorder(framework, options, rank=number, world=world)
        steps: Any = recorder
    else:
        from hermes.inside.record.recorder import Recorder

        recorder = Recorder(framework, options, rank=number, world=world)
        steps = Steps(recorder)
    _active.append((recorder, steps))
    # First of all: half-registered hooks are removed, too.
    atexit.register(recorder.border.entry(recorder.close))
    recorder.border.call(steps.attach, *([] if steps is recorder else [framework]))
    return recorder


def claimed(what: str) -> bool:
    """Whether another process of this rank records already: helper processes that a job starts load torch too."""
    name = f"{what}_PROCESS"
    number = os.environ.get("RANK", "")
    own, parent = f"{os.getpid()} {number}", os.environ.get(name, "")
    if number and parent.rpartition(" ")[2] != number:
        parent = ""  # a launcher came before, which is itself no rank
    if not parent:
        os.environ[name] = own
    return bool(parent) and parent != own


def boot(framework: str = "torch") -> None:
    """Start recording, a snapshot, or both, as the environment says."""
    options = from_environment()
    if options is not None:
        start(sys.modules[framework], options)


class record:  # noqa: N801 - used as `with record(...)` and `@record(...)`
    """A context or decorator that records the code inside, without a launcher.

    Each entry is a step, unless an optimizer steps inside: then the optimizer's steps count.
    """

    def __init__(self, out: str, **options: Any) -> None:
        self._options = Options({"steps": "0-99999", **options, "out": str(out)})
        self._recorder: Any = None
        self._steps: Any = None

    def __enter__(self) -> record:
        _BORDER.call(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        _BORDER.call(self._end)

    def _begin(self) -> None:
        import torch

        if self._recorder is None:
            from hermes.inside.record.recorder import Recorder

            number, world = rank()
            self._recorder = Recorder(torch, self._options, rank=number, world=world)
        self._steps = Steps(self._recorder)
        self._steps.attach(torch)
        self._recorder.border.call(self._recorder.begin)

    def _end(self) -> None:
        self._steps.detach()
        self._recorder.border.call(self._leave)

    def _leave(self) -> None:
        if self._recorder._ops or (self._recorder.recording and not self._steps._first):
            self._recorder.end()
        elif self._recorder.recording:
            self._recorder.recording = False
            self._recorder._leave()

    def __call__(self, function: Any) -> Any:
        """The function, recorded whenever it is called."""

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return recorded
