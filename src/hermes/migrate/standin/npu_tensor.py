"""A tensor whose device is `npu` and whose numbers are on the CPU, and the operators that compute with it.

Part of the stand-in for torch_npu: the module runs inside the user's program, and imports torch and nothing of Hermes.
Every operator of torch reaches `run`, which computes it by the kernel for CPU tensors. Results equal those of a run on
the CPU bit by bit. Calls that an NPU refuses are refused here too: operands on different devices, and calls that
`refuse` checks.
"""

from __future__ import annotations

import contextlib
import functools
from collections import OrderedDict
from typing import Any

import hermes_record
import torch
from torch.jit import _builtins
from torch.utils._pytree import tree_map

from . import refuse

aten = torch.ops.aten
core: Any = torch._C
_MIXED_IS_FINE = (
    "aten::copy_", "aten::_to_copy", "aten::index", "aten::index_put", "aten::_index_put_impl", "aten::to",
    "aten::_index_put", "aten::equal", "c10d::",
)  # fmt: skip
state = {"index": 0}


class NpuTensor(torch.Tensor):
    """A tensor on `npu`. `_raw` is the CPU tensor with its numbers, `_index` the number of its device.

    To torch's C++ code the tensor is on device 0: a backend written in Python has only one device there.
    """

    _raw: torch.Tensor
    _index: int
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: torch.Tensor, index: int | None = None) -> NpuTensor:
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, raw.size(), strides=raw.stride() if raw.layout is torch.strided else None,
            storage_offset=raw.storage_offset() if raw.layout is torch.strided else 0, dtype=raw.dtype,
            layout=raw.layout, device=torch.device("npu", 0), requires_grad=False,
        )  # fmt: skip
        made._raw = raw
        made._index = state["index"] if index is None else index
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("npu", self._index)

    def get_device(self) -> int:
        return self._index

    @property
    def data(self) -> NpuTensor:  # type: ignore[override]
        return self.detach()  # type: ignore[return-value]

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if isinstance(value, NpuTensor):
            self._raw = value._raw
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: object = None) -> str:
        return repr(self.detach().cpu()).removesuffix(")") + f", device='{self.device}')"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as torch does for devices without a storage: the file names the tensor's device; any torch reads it."""
        if isinstance(self, torch.nn.Parameter):
            return torch._utils._rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())
        where = (self.detach().cpu(), self.dtype, str(self.device), self.requires_grad)
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, where

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        copied: torch.Tensor = NpuTensor(self._raw.detach().clone(), self._index)
        if isinstance(self, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, requires_grad=self.requires_grad)
        else:
            copied.requires_grad_(self.requires_grad)
        memo[id(self)] = copied
        return copied

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.detach().cpu().numpy()
        raise hermes_record.marked(TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        ))  # fmt: skip

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self._raw.detach().tolist()

    def untyped_storage(self) -> Any:
        """The memory of the numbers, which may be freed and allocated again as on a device."""
        return self._raw.untyped_storage()

    def share_memory_(self) -> Any:
        self._raw.share_memory_()
        return self

    def is_shared(self) -> bool:
        return self._raw.is_shared()

    def record_stream(self, stream: Any) -> None:
        """Do nothing: the stand-in frees no memory early."""

    def is_pinned(self, device: Any = None) -> bool:
        return False


def _plain(value: Any) -> Any:
    if isinstance(value, NpuTensor):
        return value._raw
    if isinstance(value, torch.device) and value.type == "npu":
        return torch.device("cpu")
    return value


def _tensors(*trees: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    tree_map(lambda one: found.append(one) if isinstance(one, torch.Tensor) else None, trees)
    return found


def run(func: Any, args: Any, kwargs: Any) -> Any:
    """Compute one operator on the CPU, and wrap its results."""
    name = func._schema.name
    given = _tensors(args, kwargs)
    _refuse_mixed(name, given)
    refuse.collective(name, given, [*args, *kwargs.values()])
    refuse.operator(func.name(), given)
    device = kwargs.get("device")
    to_cpu = device is not None and torch.device(device).type not in ("npu", "meta")
    index = _index(device, given)
    special = _SPECIAL.get(name)
    compute = special if special is not None else func
    with _views(given):
        out = compute(*tree_map(_plain, args), **tree_map(_plain, kwargs))
    known = {id(one._raw) if isinstance(one, NpuTensor) else id(one): one for one in given}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in known:
            return known[id(value)]
        return (
            value if to_cpu or isinstance(value, NpuTensor) or value.device.type == "meta" else NpuTensor(value, index)
        )

    return tree_map(wrapped, out)


def _views(given: list[torch.Tensor]) -> Any:
    """Views with the mark of conjugates and negatives, which torch has skipped before an operator arrives here."""
    for one in given:
        raw = one._raw if isinstance(one, NpuTensor) else one
        if raw.is_conj() or raw.is_neg() or raw._is_zerotensor():
            excluded = core._dispatch_tls_local_exclude_set()
            for name in ("Conjugate", "Negative", "ZeroTensor"):
                excluded = excluded.remove(getattr(core.DispatchKey, name))
            return core._ForceDispatchKeyGuard(core._dispatch_tls_local_include_set(), excluded)
    return contextlib.nullcontext()


def run_called(func: Any, *args: Any, **kwargs: Any) -> Any:
    """`run` for an operator that is registered by its name."""
    return run(func, args, kwargs)


def _index(device: Any, given: list[torch.Tensor]) -> int | None:
    if device is not None and torch.device(device).index is not None:
        return torch.device(device).index
    return next((one._index for one in given if isinstance(one, NpuTensor)), None)


def _refuse_mixed(name: str, given: list[torch.Tensor]) -> None:
    if name.startswith(_MIXED_IS_FINE):
        return
    on_npu = [one for one in given if isinstance(one, NpuTensor)]
    on_cpu = [one for one in given if not isinstance(one, NpuTensor) and one.dim() > 0 and one.device.type == "cpu"]
    if on_npu and on_cpu:
        text = f"Expected all tensors to be on the same device, but found at least two devices, {on_npu[0].device} and cpu!"
        raise hermes_record.marked(RuntimeError(f"{text} (when computing {name})"))


# -- operators that torch splits differently for an accelerator than for the CPU


def _dropout(values: torch.Tensor, p: float, train: bool | None) -> Any:
    # As on the CPU: draw noise of the values' type, which then stands for the mask.
    if train is False or p == 0:
        return values.clone(), torch.ones_like(values)
    if p == 1:
        return values * 0, torch.zeros_like(values)
    noise = torch.empty_like(values).bernoulli_(1 - p).div_(1 - p)
    return values * noise, noise


def _dropout_backward(grad: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return grad * mask


def _convolution(values: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    return aten.convolution(values, weight, bias, *rest)


def _convolution_backward(grad: Any, values: Any, weight: Any, stride: Any, padding: Any, dilation: Any, transposed: Any,
                          output_padding: Any, groups: Any, mask: Any) -> Any:  # fmt: skip
    bias_sizes = [weight.shape[1] * groups if transposed else weight.shape[0]]
    return aten.convolution_backward(
        grad, values, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
    )


def _view_as_real(values: torch.Tensor) -> torch.Tensor:
    # torch resolves a conjugate before, and refuses it here; the mark is on the CPU tensor, where torch does not look.
    return aten.view_as_real(values.resolve_conj())  # type: ignore[no-any-return]


_SPECIAL = {
    "aten::view_as_real": _view_as_real,
    "aten::native_dropout": _dropout,
    "aten::native_dropout_backward": _dropout_backward,
    "aten::convolution_overrideable": _convolution,
    "aten::convolution_backward_overrideable": _convolution_backward,
}


class _Island(torch.autograd.Function):
    """A function computed on the CPU with its own gradient, for functions that torch would split by device."""

    @staticmethod
    def forward(ctx: Any, compute: Any, count: int, *tensors: Any) -> Any:
        raw = [one._raw.detach().requires_grad_(one.requires_grad) if isinstance(one, NpuTensor) else one
               for one in tensors]  # fmt: skip
        with torch.enable_grad():
            out = compute(*raw)
        outs = out if isinstance(out, tuple) else (out,)
        ctx.raw, ctx.outs = raw, outs
        wrapped = tuple(NpuTensor(one.detach()) if isinstance(one, torch.Tensor) else one for one in outs)
        return wrapped if isinstance(out, tuple) else wrapped[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = [one for one in ctx.raw if isinstance(one, torch.Tensor) and one.requires_grad]
        pairs = [(out, grad._raw if isinstance(grad, NpuTensor) else grad)
                 for out, grad in zip(ctx.outs, grads, strict=True)
                 if grad is not None and isinstance(out, torch.Tensor) and out.requires_grad]  # fmt: skip
        found = torch.autograd.grad(
            [out for out, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True, retain_graph=True
        )  # fmt: skip
        by_tensor = iter(found)
        result: list[Any] = []
        for one in ctx.raw:
            grad = next(by_tensor) if isinstance(one, torch.Tensor) and one.requires_grad else None
            result.append(NpuTensor(grad) if grad is not None else None)
        return (None, None, *result)


def island(original: Any, api: str = "") -> Any:
    """A function of torch that computes on the CPU as a whole when it gets tensors of the NPU."""

    def call(*args: Any, **kwargs: Any) -> Any:
        given = _tensors(args, kwargs)
        if not any(isinstance(one, NpuTensor) for one in given):
            return original(*args, **kwargs)
        refuse.called(api, original, args, kwargs)
        position = {id(one): number for number, one in enumerate(given)}

        def compute(*raw: Any) -> Any:
            def back(value: Any) -> Any:
                if isinstance(value, torch.Tensor) and id(value) in position:
                    return raw[position[id(value)]]
                return value

            return original(*tree_map(back, args), **tree_map(back, kwargs))

        return _Island.apply(compute, len(given), *given)

    call.__name__ = getattr(original, "__name__", "call")
    call.__doc__ = original.__doc__
    return call


def to_npu(value: Any, index: int | None = None) -> Any:
    """The tensors of a tree moved to the NPU."""

    def moved(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or isinstance(one, NpuTensor):
            return one
        made: torch.Tensor = NpuTensor(one.detach(), index)
        return (
            torch.nn.Parameter(made, one.requires_grad)
            if isinstance(one, torch.nn.Parameter)
            else made.requires_grad_(one.requires_grad)
        )

    return tree_map(moved, value)


def _made_on_cpu(original: Any) -> Any:
    """A wrapper for `torch.tensor(…, device="npu")`, for which torch makes a CPU tensor and moves it unseen."""

    def call(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        wanted = torch.device(device) if device is not None else torch.get_default_device()
        if wanted.type != "npu":
            given = args[0] if args else None
            if device is None and isinstance(given, NpuTensor):
                return given.detach().clone() if original.__name__ == "tensor" else given
            return original(*args, device=device, **kwargs)
        grad = kwargs.pop("requires_grad", False)
        given = (args[0].detach().cpu() if isinstance(args[0], NpuTensor) else args[0], *args[1:])
        return NpuTensor(original(*given, device="cpu", **kwargs), wanted.index).requires_grad_(grad)

    call.__name__ = original.__name__
    call.__doc__ = original.__doc__
    return call


def _new_tensor(
    self: torch.Tensor, values: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    return torch.tensor(
        values, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad
    )


def swap_held(original: Any) -> Any:
    """`torch.utils.swap_tensors` for weights that other objects hold: a graph of the program, or a weak reference.

    `weight_norm` keeps such a graph, also on an NPU, and never runs it again. Recurrent layers refer to their weights.
    """

    def swap(t1: torch.Tensor, t2: torch.Tensor) -> None:
        try:
            original(t1, t2)
        except RuntimeError as wrong:
            if "use_count" not in str(wrong) and "weakref" not in str(wrong):
                raise
            t1.__class__, t2.__class__ = t2.__class__, t1.__class__
            t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
            core._swap_tensor_impl(t1, t2)

    return swap


def register() -> None:
    """Make `npu` a device of torch whose operators are computed in this module."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), "PrivateUse1")
    # Mixed precision changes nothing: the CPU computes in the types of the tensors.
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    # torch would make these from an empty tensor that grows, which a wrapper cannot do.
    grown = torch.library.Library("aten", "IMPL")
    # torch would split these, and round in another order than the kernels of the CPU.
    whole = (aten.silu_backward.default, aten.mish_backward.default, aten.native_channel_shuffle.default)
    for op in (aten.arange.default, aten.arange.start, aten.arange.start_step, *whole):
        grown.impl(op, functools.partial(run_called, op), "PrivateUse1")
    state.update(library=library, grown=grown)  # type: ignore[call-overload]
    for name in ("tensor", "as_tensor", "asarray"):
        original = getattr(torch, name)
        made = _made_on_cpu(original)
        setattr(torch, name, made)
        operator = _builtins._find_builtin(original)
        if operator is not None:  # torch.jit.script still knows the function by its operator
            _builtins._register_builtin(made, operator)
    NpuTensor.new_tensor = _new_tensor  # type: ignore[method-assign, assignment]
    functional = torch.nn.functional
    attention = "torch.nn.functional.scaled_dot_product_attention"
    functional.scaled_dot_product_attention = island(functional.scaled_dot_product_attention, attention)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"):
        setattr(torch._VF, name, island(getattr(torch._VF, name)))
    functional.batch_norm = island(functional.batch_norm)
