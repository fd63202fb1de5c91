"""Runs a CUDA program on the CPU unchanged: `cuda` means the CPU, and what only a GPU can do is left out.

Part of `hermes migrate verify`: the losses of this run are compared with those of the converted program. The module
runs inside the user's program, and imports torch and nothing of Hermes. Tests such as `torch.cuda.is_available()`
return True, so the program runs the same code as on a GPU.
"""

from __future__ import annotations

import os
from typing import Any

import hermes_split
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

_DEVICES = int(os.environ.get("HERMES_STANDIN_DEVICES", "1"))
_CUDA = torch.device("cuda")
_state: dict[str, Any] = {"device": 0}
_cpu = torch.device("cpu")


def _plain(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type in ("cuda", "npu"):
        return _cpu
    if isinstance(value, str) and value.partition(":")[0] in ("cuda", "npu"):
        return "cpu"
    return value


def _is_cuda(value: Any) -> bool:
    return _plain(value) is not value


def _there(value: Any) -> bool:
    """Whether a tensor would be on the GPU."""
    return isinstance(value, torch.Tensor) and getattr(value, "_hermes_there", False)


def _mark(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value._hermes_there = True  # type: ignore[attr-defined]
    return value


def _moved(before: torch.Tensor, after: Any) -> Any:
    """The result of `.to("cuda")`: a copy, unless the tensor counts as on the GPU already."""
    return _mark(after.clone() if after is before and not _there(before) else after)


class _OnCpu(TorchFunctionMode):
    """Reads `cuda` as `cpu` in each call of torch, and remembers which tensors a GPU would hold."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        kwargs = kwargs or {}
        if name == "to" and len(args) > 1 and isinstance(args[1], int) and not isinstance(args[1], bool):
            args = (args[0], _CUDA, *args[2:])
        to_cuda = any(map(_is_cuda, args)) or _is_cuda(kwargs.get("device"))
        out = func(*tree_map(_plain, args), **tree_map(_plain, kwargs))
        if name == "to" and to_cuda:
            return _moved(args[0], out)
        if isinstance(out, torch.Tensor) and (to_cuda or (name not in ("to", "cpu") and any(map(_there, args)))):
            _mark(out)
        return out


def _gives(value: Any) -> Any:
    """A new function that returns `value`; each name needs its own, as torch's compiler keeps a table by function."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return value

    return call


class _Stand:
    """A stream, an event or a context that does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> _Stand:
        return self

    def __exit__(self, *ended: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _gives(0.0 if name == "elapsed_time" else None)


def _set_device(device: Any) -> None:
    _state["device"] = device if isinstance(device, int) else torch.device(device).index or 0


def _cuda() -> None:
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.device_count = lambda: _DEVICES
    cuda.current_device = lambda: _state["device"]
    cuda.set_device = lambda device: _set_device(device)
    cuda.is_bf16_supported = lambda *args, **kwargs: True
    cuda.get_device_name = lambda device=None: "CPU"
    cuda.mem_get_info = lambda device=None: (60 * 2**30, 64 * 2**30)
    for name in ("synchronize", "manual_seed", "manual_seed_all", "empty_cache", "init", "_lazy_init", "set_stream",
                 "reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect", "set_rng_state"):  # fmt: skip
        setattr(cuda, name, _gives(None))
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "utilization"):
        setattr(cuda, name, _gives(0))
    for name in ("Stream", "Event", "stream", "device", "current_stream", "default_stream"):
        setattr(cuda, name, type(name, (_Stand,), {}))
    cuda.get_device_properties = lambda device=None: _Stand()
    cuda.get_rng_state = lambda device=None: torch.get_rng_state()


def _accelerator() -> None:
    accelerator: Any = torch.accelerator
    accelerator.is_available = lambda: True
    accelerator.device_count = lambda: _DEVICES
    accelerator.current_accelerator = lambda check_available=False: _CUDA
    accelerator.current_device_index = lambda: _state["device"]
    accelerator.set_device_index = lambda device: _set_device(device)
    accelerator.synchronize = _gives(None)
    accelerator.current_stream = lambda device=None: _Stand()
    for name in ("empty_cache", "reset_peak_memory_stats", "set_stream"):
        setattr(accelerator, name, _gives(None))
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(accelerator, name, _gives(0))


def _objects() -> None:
    def tensor(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _moved(self, self.to("cpu"))

    torch.Tensor.cuda = tensor  # type: ignore[method-assign, assignment]
    torch.Tensor.pin_memory = lambda self, device=None: self  # type: ignore[method-assign, assignment]
    torch.nn.Module.cuda = lambda self, device=None: self.to("cpu")  # type: ignore[method-assign, assignment]
    original_to = torch.nn.Module.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple("cpu" if isinstance(one, int) and not isinstance(one, bool) else _plain(one) for one in args)
        return original_to(self, *args, **{key: _plain(value) for key, value in kwargs.items()})

    torch.nn.Module.to = to  # type: ignore[method-assign, assignment]
    original_load = torch.load

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original_load(f, "cpu", *args, **kwargs)

    torch.load = load


def _collectives() -> None:
    import torch.distributed as dist

    if not dist.is_available():
        return
    original = dist.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original("gloo", *args, **kwargs)

    dist.init_process_group = init_process_group
    dist.distributed_c10d.init_process_group = init_process_group  # type: ignore[attr-defined]
    dist.is_nccl_available = lambda: True
    mesh: Any = dist.device_mesh.DeviceMesh
    make_mesh = mesh.__init__

    def device_mesh(self: Any, device_type: Any, *args: Any, **kwargs: Any) -> None:
        make_mesh(self, _plain(device_type), *args, **kwargs)

    mesh.__init__ = device_mesh
    if hasattr(dist.device_mesh, "init_process_group"):
        dist.device_mesh.init_process_group = init_process_group
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    make = parallel.__init__

    def distributed(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        make(self, module, None, None, *args, **kwargs)

    parallel.__init__ = distributed


def _remote_calls() -> None:
    """Make calls from other ranks use the mode too: they run in threads of their own, which do not inherit it."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.rpc import internal

    original = internal._run_function

    def run(call: Any) -> Any:
        with _OnCpu():
            return original(call)

    internal._run_function = run


def _autoload() -> None:
    """Set up the baseline; torch calls this function when it is imported."""
    _cuda()
    _accelerator()
    _objects()
    _collectives()
    _remote_calls()
    hermes_split.install()
    mode = _OnCpu()
    mode.__enter__()
    _state["mode"] = mode
