"""Refuses calls that an NPU refuses: by data types, by arguments, and by unsupported modules.

Part of the stand-in for torch_npu. The module runs inside the user's program, and imports torch and nothing of Hermes.
The refusals are in `refusals.json`, which `hermes migrate verify` makes from the support table of Ascend/pytorch.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from pathlib import Path
from typing import Any

import hermes_record
import torch
from torch.overrides import TorchFunctionMode, resolve_name

_TABLE: dict[str, Any] = json.loads((Path(__file__).parent / "refusals.json").read_text(encoding="utf-8"))
_REFUSED: dict[str, list[str]] = _TABLE["refused"]
_UNLISTED: dict[str, list[str]] = _TABLE["unlisted"]
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__rsub__": "sub", "__isub__": "sub_",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul_", "__matmul__": "matmul", "__truediv__": "div",
    "__rtruediv__": "div", "__itruediv__": "div_", "__pow__": "pow", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg", "__abs__": "abs", "__and__": "logical_and",
}  # fmt: skip
_COLLECTIVES = {
    "allreduce": "all_reduce", "all_reduce": "all_reduce", "allreduce_coalesced": "all_reduce", "broadcast": "broadcast",
    "allgather": "all_gather", "_allgather_base": "all_gather", "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter", "reduce": "reduce", "gather": "gather", "scatter": "scatter",
    "alltoall": "all_to_all", "alltoall_base": "all_to_all_single", "all_to_all_single": "all_to_all_single",
}  # fmt: skip
_OF_TORCH = (
    "aten", "prims", "prim", "c10d", "_c10d_functional", "_c10d_functional_autograd", "npu", "_dtensor", "profiler",
    "rngprims", "inductor", "inductor_prims", "export",
)  # fmt: skip
_EVERY_DEVICE = ("PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
_state: dict[str, Any] = {}


def refused(text: str, source: str = "support table of Ascend/pytorch") -> Exception:
    """The error that an NPU would raise, in a form that the recorder recognises as a refusal."""
    return hermes_record.marked(RuntimeError(f"{text} ({source}, {_TABLE['target']})"))


def _on_npu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def _dtype(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _check_type(api: str, value: Any) -> None:
    dtype = _dtype(value)
    if dtype in _REFUSED.get(api, ()):
        raise refused(f"{api} does not take {dtype}")
    if dtype in _UNLISTED.get(api, ()):
        hermes_record.unlisted(f"{api} with {dtype}")


@functools.cache
def _name(func: Any) -> str:
    try:
        name = resolve_name(func) or ""
    except Exception:  # noqa: BLE001 - torch has no name for it: then no table has one
        return ""
    head, _, last = name.rpartition(".")
    return f"{head}.{_OPERATORS.get(last, last)}"


_BETWEEN = ("torch.overrides", "torch._jit_internal")
_OURS = ("torch_npu", "hermes_split")


def _by_program(function: Any) -> bool:
    """Whether the program or a library calls a function of torch, and not torch itself."""
    frame: Any = sys._getframe(2)
    code = getattr(function, "__code__", None)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        root = module.partition(".")[0]
        if root not in _OURS and module not in _BETWEEN and frame.f_code is not code:
            return root != "torch"
        frame = frame.f_back
    return False


class _Refuse(TorchFunctionMode):
    """Checks each call of torch by the program before it is computed.

    Calls that torch makes itself, such as by its GradScaler in float64, belong to the row of the program's call.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name(func)
        if name and _by_program(func):
            _check(name, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def called(name: str, function: Any, args: Any, kwargs: Any) -> None:
    """Check a call of a function that replaces a function of torch."""
    if _by_program(function):
        _check(name, args, kwargs)


def _check(name: str, args: Any, kwargs: Any) -> None:
    first = args[0] if args else kwargs.get("input", kwargs.get("query"))
    first = first[0] if isinstance(first, (list, tuple)) and first else first
    if _on_npu(first):
        _check_type(name, first)
        _check_arguments(name, args, kwargs)


def _check_arguments(name: str, args: Any, kwargs: Any) -> None:
    if name in _TABLE["no-scale-factor"]:
        factor = kwargs.get("scale_factor", args[2] if len(args) > 2 else None)
        if factor is not None:
            raise refused(f"{name} does not take scale_factor")
    if name in _TABLE["bool-mask"]:
        mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
        if mask is not None and mask.dtype is not torch.bool:
            raise refused(f"{name} takes a mask of type bool alone, not {_dtype(mask)}")


def collective(operator: str, given: list[torch.Tensor], arguments: list[Any]) -> None:
    """Check the tensors and the group of a collective, by the operator's full name."""
    space, _, name = operator.partition("::")
    if space not in ("c10d", "_c10d_functional") or not any(map(_on_npu, given)):
        return
    api = _COLLECTIVES.get(name.rstrip("_"))
    for one in given if api else ():
        if _on_npu(one):
            _check_type(f"torch.distributed.{api}", one)
    for one in arguments:
        _check_group(one)


def _check_group(value: Any) -> None:
    """Refuse a group whose backend is for the host alone, such as gloo: it transfers GPU tensors, but no NPU tensors."""
    import torch.distributed as dist

    with contextlib.suppress(RuntimeError, TypeError):
        value = dist.ProcessGroup.unbox(value) if isinstance(value, torch.ScriptObject) else value
    if not isinstance(value, dist.ProcessGroup):
        return
    try:
        value._get_backend(torch.device("npu"))
    except RuntimeError as wrong:
        raise hermes_record.marked(wrong)  # noqa: B904 - it is the error that torch raises on an NPU, marked


def operator(name: str, given: list[torch.Tensor]) -> None:
    """Refuse an operator of another library, unless the library or a companion has a kernel for an NPU."""
    space = name.partition("::")[0]
    if space in _OF_TORCH or not any(map(_on_npu, given)) or any(_has_kernel(name, key) for key in _EVERY_DEVICE):
        return
    raise refused(f"{name} has no kernel for an NPU", source="the operators that are registered")


def _has_kernel(name: str, key: str) -> bool:
    has: bool = torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    return has


def _module(module: Any, args: Any) -> None:
    """Check a module before its forward pass, by the module's own row of the table."""
    kind = type(module)
    if args and kind.__module__.startswith("torch.nn.modules.") and _on_npu(args[0]):
        _check_type(f"torch.nn.{kind.__name__}", args[0])


def _without_data_parallel() -> None:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise refused("torch.nn.DataParallel is not supported: torch_npu removed its patches in August 2026")

    torch.nn.DataParallel.__init__ = refuse  # type: ignore[method-assign]


def _without_cuda() -> None:
    """Make remaining uses of CUDA fail as in a torch built without CUDA, since a machine with an NPU has no CUDA."""

    def refuse() -> None:
        raise hermes_record.marked(AssertionError("Torch not compiled with CUDA enabled"))

    torch.cuda._lazy_init = refuse


def install() -> None:
    """Check each call of torch from now on."""
    mode = _Refuse()
    mode.__enter__()
    _state["mode"] = mode
    torch.nn.modules.module.register_module_forward_pre_hook(_module)
    _without_cuda()
    with contextlib.suppress(AttributeError):
        _without_data_parallel()
