"""Follows the calls of torch modules with torch's global hooks, which are registered in recorded steps only."""

from __future__ import annotations

from typing import Any, Tuple

_Place = Tuple[str, Any, int, int]
"""The place of a gradient: its name, the module, the number of the module's call, and the tensor's position."""


class Modules:
    """The hooks that tell the recorder the current module and, where modules are recorded, their values and
    gradients."""

    def __init__(self, recorder: Any, torch: Any) -> None:
        self._recorder = recorder
        self._torch = torch
        self._narrow = recorder.options.narrow
        self._backward = "backward" in recorder.options.phases
        self._handles: list[Any] = []
        self._stack: list[tuple[int, dict[str, Any] | None, list[int]]] = []
        self._waiting: dict[int, list[_Place]] = {}

    def attach(self) -> None:
        """Register the hooks: a recorded step begins."""
        module, entry = self._torch.nn.modules.module, self._recorder.border.entry
        self._stack = []
        self._waiting = {}
        self._handles = [
            module.register_module_forward_pre_hook(entry(self._before)),
            module.register_module_forward_hook(entry(self._after), with_kwargs=True, always_call=True),
        ]

    def detach(self) -> None:
        """Remove the hooks: a recorded step ends."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._stack = []

    def _before(self, module: Any, args: Any) -> None:
        recorder = self._recorder
        if not recorder.recording or recorder.failed or self._torch.compiler.is_compiling():
            return
        parent = recorder.module
        number = recorder.paths.number(module, parent)
        recorder.module = number
        op: dict[str, Any] | None = None
        inputs: list[int] = []
        if recorder.options.modules:
            op, inputs = self._begin(module, number, args)
        self._stack.append((number, op, inputs))

    def _after(self, module: Any, args: Any, *rest: Any) -> None:
        # Where a module raised, torch calls without keyword arguments: recomputation ends with such an exception once
        # it has enough.
        kwargs, result = rest if len(rest) == 2 else ({}, rest[0])
        recorder = self._recorder
        if not recorder.recording or not self._stack or self._torch.compiler.is_compiling():
            return
        number, op, _ = self._stack.pop()
        recorder.module = self._stack[-1][0] if self._stack else None
        if op is not None:
            self._end(module, number, op, kwargs, result)

    def _begin(self, module: Any, number: int, args: Any) -> tuple[dict[str, Any] | None, list[int]]:
        recorder = self._recorder
        name = f"module.{type(module).__name__}"
        if self._narrow and not recorder.options.wants(name, recorder.paths.name(number), "forward"):
            return None, []
        with recorder._off():
            op = recorder.new_op(name, "forward", number)
            of = recorder.values.of
            found = tensors(args, self._torch)
            numbers = [of(tensor) for tensor in found]
            op["in"] = [one for one in numbers if one is not None]
            for own in (module._parameters, module._buffers):
                for tensor in own.values():
                    value = None if tensor is None else of(tensor)
                    if value is not None:
                        op["in"].append(value)
            self._on_gradient(found, numbers, op, "inputs")
        return op, op["in"]

    def _end(self, module: Any, number: int, op: dict[str, Any], kwargs: Any, result: Any) -> None:
        recorder = self._recorder
        with recorder._off():
            if kwargs:
                more = [recorder.values.of(tensor) for tensor in tensors(kwargs, self._torch)]
                op["in"] += [one for one in more if one is not None]
            found = tensors(result, self._torch)
            # Containers come after their parts: the lines are in the order of the results.
            op["done"] = len(recorder._ops)
            outputs = [recorder.values.of(tensor) for tensor in found]
            op["out"] = [one for one in outputs if one is not None]
            self._on_gradient(found, outputs, op, "outputs")
            recorder.complete(op)

    def _on_gradient(self, found: list[Any], numbers: list[int | None], op: dict[str, Any], of: str) -> None:
        """Record the gradient of a module's tensors. A tensor's own hook adds nothing to the graph.

        A tensor between two modules has one gradient, which is recorded once.
        """
        recorder = self._recorder
        if not self._backward:
            return
        for at, (tensor, number) in enumerate(zip(found, numbers)):
            if number is None or not tensor.requires_grad or not tensor.is_floating_point():
                continue
            waiting = self._waiting.get(number)
            if waiting is None:
                waiting = self._waiting[number] = []
                tensor.register_hook(self._arriving(recorder.step, waiting))
            waiting.append((f"gradient of {of}", op.get("module"), op["n"], at))

    def _arriving(self, step: int, waiting: list[_Place]) -> Any:
        recorder = self._recorder

        def arrived(gradient: Any) -> None:
            if not recorder.recording or recorder.step != step or recorder.failed:
                return
            with recorder._lock, recorder._off():
                value = recorder.values.of(gradient)
                # In the backward pass, the last module that took the tensor comes first.
                for name, module, number, at in reversed(waiting):
                    line = recorder.new_op(name, "backward", module, number)
                    line["place"] = at
                    line["out"] = [] if value is None else [value]
                    recorder.complete(line)

        return recorder.border.entry(arrived)


def tensors(found: Any, torch: Any, depth: int = 0) -> list[Any]:
    """All tensors of arguments or of a result, in their order."""
    if isinstance(found, torch.Tensor):
        return [found]
    if depth > 6:
        return []
    if isinstance(found, dict):
        parts: Any = found.values()
    elif isinstance(found, (list, tuple)):
        parts = found
    elif hasattr(found, "__dataclass_fields__"):
        parts = [getattr(found, name, None) for name in found.__dataclass_fields__]
    else:
        return []
    return [one for part in parts for one in tensors(part, torch, depth + 1)]
