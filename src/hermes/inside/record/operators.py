"""Records every torch operator under autograd, as a mode of torch's dispatcher: no function of torch is replaced."""

from __future__ import annotations

import os
import threading
from typing import Any

from hermes.inside.record.journal import jsonable
from hermes.inside.record.stats import state_print

_IGNORED = frozenset(
    [
        "aten.is_pinned",
        "aten.sym_size",
        "aten.sym_stride",
        "aten.sym_numel",
        "aten.sym_storage_offset",
        "aten.is_same_size",
        "aten._has_compatible_shallow_copy_type",
        "prim.device",
        "aten.record_stream",
        "aten.set_",
        "profiler._record_function_enter_new",
        "profiler._record_function_exit",
    ]
)
# Operators whose results hold the previous content of the memory.
_EMPTY = frozenset(["aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided"])
_LONGEST_LIST = 64
_DEEPEST_LIST = 4


class KnownOperator:
    """The facts on one kind of operator, looked up once."""

    __slots__ = ("collective", "empty", "ignored", "name", "random", "view", "writes")

    def __init__(self, func: Any, torch: Any) -> None:
        self.name = str(func)
        short = self.name.rpartition(".")[0] if self.name.count(".") > 1 else self.name
        schema = func._schema
        self.ignored = short in _IGNORED
        self.empty = short in _EMPTY
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.collective = self.name.startswith(("c10d.", "_c10d_functional.", "c10d_functional."))
        aliases = [argument.alias_info for argument in schema.arguments]
        self.writes = tuple(at for at, alias in enumerate(aliases) if alias is not None and alias.is_write)
        self.view = not self.writes and any(one.alias_info is not None for one in schema.returns)


class Arguments:
    """The arguments of a call, sorted into tensor values, in the order of the call, and all other arguments."""

    __slots__ = ("_of", "_types", "numbers", "tensors")

    def __init__(self, values: Any, types: tuple[Any, ...]) -> None:
        self._of = values.of
        self._types = types
        self.numbers: list[int] = []
        self.tensors: list[Any] = []

    def of(self, argument: Any, depth: int = 0) -> Any:
        """The argument as strict JSON holds it; a tensor is `@` and its place among the values."""
        kind = type(argument)
        if kind in self._types or isinstance(argument, self._types[0]):
            number = self._of(argument)
            if number is None:
                return None
            self.numbers.append(number)
            self.tensors.append(argument)
            return f"@{len(self.numbers) - 1}"
        if kind in _AS_THEY_ARE:
            return argument
        if isinstance(argument, (list, tuple)) and depth < _DEEPEST_LIST:
            if len(argument) > _LONGEST_LIST and not isinstance(argument[0], self._types[0]):
                return [*(self.of(one, depth + 1) for one in argument[:_LONGEST_LIST]), f"… {len(argument)}"]
            return [self.of(one, depth + 1) for one in argument]
        if isinstance(argument, (int, float)):
            return jsonable(float(argument)) if isinstance(argument, float) else int(argument)
        name = kind.__name__
        return name if name in ("ScriptObject", "Generator", "ProcessGroup") else str(argument)[:120]


_AS_THEY_ARE = frozenset([type(None), bool, int, str])


def make_mode(recorder: Any, torch: Any) -> Any:
    """A dispatcher mode that passes each operator to the recorder. Torch is the user's, so the mode's class is made at
    run time."""
    from torch.utils._python_dispatch import TorchDispatchMode

    plain = (torch.Tensor, torch.nn.Parameter)
    process = os.getpid()
    getpid = os.getpid
    record = recorder.operator

    def seen(call: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not recorder.recording or recorder.failed or getpid() != process:
            return call()
        for one in types:
            if one not in plain:
                if one.__module__.startswith("torch._subclasses"):
                    return call()  # a shape is tried out, and no element is computed
                return NotImplemented  # the tensor's own class splits the operator into operators that come by here
        return record(call, func, args, kwargs)

    dispatch = recorder.border.dispatcher(seen)
    left_alone = _never_compiled(torch, dispatch)

    class Recording(TorchDispatchMode):  # type: ignore[misc]
        __torch_dispatch__ = dispatch

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return not left_alone  # without this mark torch wraps each call, and loads its compiler for the wrapping

    return Recording()


def _never_compiled(torch: Any, function: Any) -> bool:
    """Whether this torch accepts a mark on the function that neither it nor its callees are to be compiled."""
    try:
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True


class Operators:
    """The recorder of the operators of a step."""

    def __init__(self, recorder: Any, torch: Any) -> None:
        self._recorder = recorder
        self._torch = torch
        self._known: dict[int, KnownOperator] = {}
        self._kept: list[Any] = []
        self._busy = threading.local()
        autograd = torch._C._autograd
        self._sequence = getattr(autograd, "_get_sequence_nr", None)
        self._node = getattr(torch._C, "_current_autograd_node", None)
        self._written = torch.autograd.function.BackwardCFunction
        self._by_sequence: dict[int, tuple[int, int | None]] = {}
        self._arithmetic = recorder.arithmetic
        self._types = (torch.Tensor, torch.nn.Parameter)
        self._narrow = recorder.options.narrow

    def begin(self) -> None:
        """Reset the recorder of operators at the begin of a step."""
        self._by_sequence.clear()

    def call(self, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator by `call`, and record it."""
        known = self._known.get(id(func))
        if known is None:
            known = self._known[id(func)] = KnownOperator(func, self._torch)
            self._kept.append(func)
        if known.ignored:
            return call()
        recorder = self._recorder
        phase, module, forward = self._place()
        if self._narrow and not recorder.options.wants(known.name, recorder.paths.name(module), phase):
            return self._run(known, call, func, args, kwargs)
        sorted_args = Arguments(recorder.values, self._types)
        plain = [sorted_args.of(one) for one in args]
        if kwargs:
            plain.append({name: sorted_args.of(one) for name, one in kwargs.items()})
        op = recorder.new_op(known.name, phase, module, forward)
        if known.random:
            op["random"] = self._random_state(sorted_args.tensors)
        op["in"], op["args"] = sorted_args.numbers, plain
        result = call() if self._arithmetic is None else self._run(known, call, func, args, kwargs)
        self._results(known, op, sorted_args, result, args)
        recorder.complete(op)
        return result

    def _run(self, known: KnownOperator, call: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if self._arithmetic is None or known.view or known.empty or known.random or known.collective:
            return call()
        return self._arithmetic.run(known, call, func, args, kwargs)

    def _place(self) -> tuple[str, int | None, int | None]:
        """The current phase, the module and, in the backward pass, the forward operator that the current operator
        belongs to."""
        recorder = self._recorder
        if recorder.in_optimizer:
            return "optimizer", None, None
        node = self._node() if self._node else None
        if node is None:
            return "forward", recorder.module, None
        recorder.in_function = isinstance(node, self._written)
        try:
            found = self._by_sequence.get(node._sequence_nr())
        except (AttributeError, RuntimeError):
            found = None
        # Recomputation of activations runs modules again inside the backward pass.
        module = recorder.module if recorder.module is not None else (found[1] if found else None)
        return "backward", module, found[0] if found else None

    def _results(self, known: KnownOperator, op: dict[str, Any], given: Arguments, result: Any, args: Any) -> None:
        recorder = self._recorder
        number = op["n"]
        if op["phase"] == "forward" and self._sequence is not None:
            # The graph node of this operator's gradient is made before the operator runs.
            self._by_sequence.setdefault(self._sequence() - 1, (number, op.get("module")))
        if known.collective:
            _wait(result)
        values = recorder.values
        found = [result] if type(result) in self._types else _tensors(result, self._torch)
        if known.view and given.numbers:
            base = given.tensors[0]
            version = None if base.is_inference() else base._version
            outputs = [values.of(one, op=number, base=given.numbers[0], version=version) for one in found]
        elif known.empty:
            for tensor in found:
                values.wrote(tensor, number)
            return
        else:
            if known.writes:
                written = [one for at in known.writes if at < len(args) for one in _tensors(args[at], self._torch)]
                for tensor in written:
                    values.wrote(tensor, number)
                found = found or written
            outputs = [values.of(one, op=number) for one in found]
        op["out"] = [one for one in outputs if one is not None]

    def _random_state(self, tensors: Any) -> str:
        device = next((one.device for one in tensors), None)
        if device is None or device.type == "cpu":
            return self.host_random_state()
        return ""

    def host_random_state(self) -> str:
        """A fingerprint of the state of the processor's random generator."""
        import ctypes

        state = self._torch.random.default_generator.get_state()
        return state_print(ctypes.string_at(state.data_ptr(), state.numel()))


def _tensors(result: Any, torch: Any) -> list[Any]:
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [one for part in result for one in _tensors(part, torch)]
    return []


def _wait(result: Any) -> None:
    """Wait for an asynchronous collective now, to read its result. The program would wait for it later anyway."""
    for part in result if isinstance(result, (list, tuple)) else ():
        if type(part).__name__ == "ScriptObject" and hasattr(part, "wait"):
            part.wait()
