"""A stand-in for `torch_npu.contrib.transfer_to_npu`: patches torch in the same places as the wheel's module.

The module runs inside the user's program; its lists of functions come from the wheel through `surface.json`.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch
import torch.distributed as dist
import torch_npu

_LISTS: dict[str, list[str]] = torch_npu._SURFACE["shim"]
_KEYWORDS = _LISTS["device_kwargs_list"]


def _npu(value: Any, numbers: bool) -> Any:
    if isinstance(value, str) and "cuda" in value:
        return value.replace("cuda", "npu")
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if isinstance(value, dict):
        return {_npu(key, False): _npu(one, False) for key, one in value.items()}
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        return f"npu:{value}"
    return value


def _wrapped(function: Any) -> Any:
    numbers = getattr(function, "__name__", "") in ("to", "to_empty")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(_npu(one, numbers) for one in args)
        for name in _KEYWORDS:
            if kwargs.get(name) is not None:
                kwargs[name] = _npu(kwargs[name], True)
        return function(*args, **kwargs)

    return call


def _wrap(holder: Any, names: list[str]) -> None:
    for name in names:
        function = getattr(holder, name, None)
        if function is not None:
            setattr(holder, name, _wrapped(function))


def _hccl(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(
            one.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(one, str) else one for one in args
        )
        if isinstance(kwargs.get("backend"), str):
            kwargs["backend"] = kwargs["backend"].replace("nccl", "hccl").replace("cuda", "npu")
        return function(*args, **kwargs)

    return call


def _script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    return obj


def _patch() -> None:
    npu = torch_npu.npu
    for name in npu.__all__:
        setattr(torch.cuda, name, getattr(npu, name))
    for name in ("autocast", "GradScaler", "custom_fwd", "custom_bwd"):
        setattr(torch.cuda.amp, name, getattr(npu.amp, name))
    _wrap(torch.cuda, _LISTS["torch_cuda_fn_white_list"])
    _wrap(torch, _LISTS["torch_fn_white_list"])
    _wrap(torch.Tensor, _LISTS["torch_tensor_fn_white_list"])
    _wrap(torch.nn.Module, _LISTS["torch_module_fn_white_list"])
    tensor: Any = torch.Tensor
    tensor.cuda, tensor.is_cuda = tensor.npu, tensor.is_npu
    torch.nn.Module.cuda = torch.nn.Module.npu  # type: ignore[attr-defined]
    torch.amp.autocast_mode.autocast.__init__ = _wrapped(torch.amp.autocast_mode.autocast.__init__)
    torch.jit.script = _script
    torch.jit.script_method = lambda function: function
    torch.cuda.CUDAGraph = npu.NPUGraph  # type: ignore[misc]
    warnings.warn("torch.jit.script is turned off by transfer_to_npu", RuntimeWarning, stacklevel=2)


def _patch_collectives() -> None:
    dist.init_process_group = _hccl(_wrapped(dist.init_process_group))
    dist.distributed_c10d._new_group_with_tag = _hccl(dist.distributed_c10d._new_group_with_tag)
    dist.is_nccl_available = dist.is_hccl_available  # type: ignore[attr-defined]
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    parallel.__init__ = _wrapped(parallel.__init__)


_patch()
_patch_collectives()
