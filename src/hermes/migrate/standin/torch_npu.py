"""A stand-in for torch_npu: the names and signatures of its wheel, over a device `npu` whose numbers are on the CPU.

The module runs inside the user's program in place of torch_npu, and torch finds it as it finds the real one. A name
that the wheel lacks is missing here, and a call that does not fit a signature of the wheel fails here. A function of
the wheel that the stand-in does not compute raises an error that says so.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

# As in the wheel: a program that imports torch_npu first must not make torch load it a second time.
_FIRST = "torch" not in sys.modules
_ASKED = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
if _FIRST:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import hermes_record  # noqa: E402
import hermes_split  # noqa: E402
import torch  # noqa: E402
import torch.utils.backend_registration as registration  # noqa: E402

from . import load, npu_tensor, refuse  # noqa: E402

if _FIRST:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _ASKED or "1"

_SURFACE: dict[str, Any] = json.loads((Path(__file__).parent / "surface.json").read_text(encoding="utf-8"))
__version__ = _SURFACE["version"]
_DEVICES = int(os.environ.get("HERMES_STANDIN_DEVICES", "1"))


class NotComputedError(NotImplementedError):
    """Raised by a function that the wheel has and the stand-in does not compute."""


def _not_computed(name: str) -> Exception:
    text = f"{name} exists in torch_npu {__version__}; the stand-in does not compute it"
    return hermes_record.marked(NotComputedError(text), "not_computed")


def _signature(text: str) -> inspect.Signature:
    function = ast.parse(f"def f{text}: pass").body[0]
    scope: dict[str, Any] = {}
    exec(compile(ast.Module(body=[function], type_ignores=[]), "surface", "exec"), scope)
    return inspect.signature(scope["f"])


def _checked(name: str, signature: str, compute: Any) -> Any:
    sign = _signature(signature)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            sign.bind(*args, **kwargs)
        except TypeError as wrong:
            raise hermes_record.marked(wrong)  # noqa: B904 - it is the same error, marked
        if compute is None:
            raise _not_computed(f"{name}{signature}")
        return compute(*args, **kwargs)

    call.__name__ = name.rpartition(".")[2]
    call.__signature__ = sign  # type: ignore[attr-defined]
    return call


def _device(value: Any = None) -> int:
    if value is None:
        return int(npu_tensor.state["index"])
    if isinstance(value, int):
        return value
    return torch.device(value).index or 0


def _set_device(device: Any) -> None:
    index = _device(device)
    if not 0 <= index < _DEVICES:
        raise hermes_record.marked(RuntimeError(f"Invalid device ID {index}: there are {_DEVICES} (--devices)"))
    npu_tensor.state["index"] = index


class Stream:
    """A stream of the NPU whose work is done at once."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = torch.device("npu", _device(device))

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *ended: object) -> None: ...


class Event:
    """An event of the NPU that remembers when it was recorded."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        import time

        self.at = time.perf_counter()

    def wait(self, stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Event) -> float:
        return (end_event.at - self.at) * 1e3


class _Context:
    def __init__(self, device: Any = None) -> None:
        self.index = _device(device)

    def __enter__(self) -> None:
        self.before, npu_tensor.state["index"] = npu_tensor.state["index"], self.index

    def __exit__(self, *ended: object) -> None:
        npu_tensor.state["index"] = self.before


class _StreamContext:
    def __init__(self, stream: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *ended: object) -> None: ...


class _Properties:
    name = "Ascend (stand-in)"
    total_memory = 64 * 2**30
    L2_cache_size = 192 * 2**20
    cube_core_num = 24
    vector_core_num = 48


def _nothing(*args: Any, **kwargs: Any) -> None: ...


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


_COMPUTED: dict[str, Any] = {
    "is_available": lambda: True, "device_count": lambda: _DEVICES, "current_device": _device, "init": _nothing,
    "is_initialized": lambda: True, "synchronize": _nothing, "set_device": _set_device, "empty_cache": _nothing,
    "get_device_name": lambda device_name=None: _Properties.name, "ipc_collect": _nothing,
    "get_device_properties": lambda device=None: _Properties(), "get_device_capability": lambda device=None: None,
    "mem_get_info": lambda device=None: (60 * 2**30, 64 * 2**30), "manual_seed": _nothing,
    "manual_seed_all": _nothing, "seed": _nothing, "seed_all": _nothing, "initial_seed": lambda: 0,
    "memory_allocated": _zero, "max_memory_allocated": _zero, "memory_reserved": _zero, "max_memory_reserved": _zero,
    "memory_cached": _zero, "max_memory_cached": _zero, "reset_peak_memory_stats": _nothing,
    "reset_accumulated_memory_stats": _nothing, "reset_max_memory_allocated": _nothing,
    "reset_max_memory_cached": _nothing, "memory_stats": lambda device=None: {}, "memory_snapshot": lambda: [],
    "memory_summary": lambda device=None, abbreviated=False: "", "memory_stats_as_nested_dict": lambda device=None: {},
    "is_bf16_supported": lambda: True, "current_stream": lambda device=None: Stream(),
    "default_stream": lambda device=None: Stream(), "set_stream": _nothing, "stream": _StreamContext,
    "get_rng_state": lambda device="npu": torch.get_rng_state(), "set_rng_state": _nothing,
    "get_rng_state_all": lambda: [torch.get_rng_state()], "set_rng_state_all": _nothing,
    "can_device_access_peer": lambda device_id, peer_device_id: True, "utilization": _zero,
    "set_per_process_memory_fraction": _nothing, "get_amp_supported_dtype": lambda: [torch.float16, torch.bfloat16],
    "is_autocast_enabled": lambda: torch.is_autocast_enabled("npu"), "set_compile_mode": _nothing,
    "set_option": _nothing, "set_sync_debug_mode": _nothing, "get_sync_debug_mode": _zero,
    "is_current_stream_capturing": lambda: False, "set_deterministic_level": _nothing,
    "use_compatible_impl": _nothing, "set_autocast_enabled": _nothing, "get_autocast_dtype": lambda: torch.float16,
}  # fmt: skip
_CLASSES: dict[str, Any] = {"Stream": Stream, "Event": Event, "device": _Context, "device_of": _Context,
                            "StreamContext": _StreamContext}  # fmt: skip


class _Switches:
    allow_hf32 = False


def _typed(dtype: torch.dtype) -> Any:
    return lambda *sizes: (
        torch.tensor(*sizes, dtype=dtype, device="npu")
        if sizes and not isinstance(sizes[0], int)
        else torch.empty(*sizes, dtype=dtype, device="npu")
    )


def _value(name: str) -> Any:
    if name.endswith("Tensor"):
        kind = name.removesuffix("Tensor").lower()
        dtype = getattr(torch, {"byte": "uint8", "char": "int8"}.get(kind, kind), torch.float32)
        return _typed(torch.float32 if kind == "double" else dtype)
    return () if name == "default_generators" else _Switches()


def _absent_class(full: str) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise _not_computed(full)

    return type(full.rpartition(".")[2], (), {"__init__": refuse})


def _module(full: str) -> types.ModuleType:
    module = types.ModuleType(full)
    module.__file__ = __file__
    module.__path__ = [str(Path(__file__).parent.joinpath(*full.split(".")[1:]))]
    names = _SURFACE["modules"][full]
    for name, what in names.items():
        value: Any = None
        if what["kind"] == "class":
            value = _CLASSES.get(name) or _absent_class(f"{full}.{name}")
        elif what["kind"] == "function":
            value = _checked(f"{full}.{name}", what["signature"], _COMPUTED.get(name))
        elif what["kind"] == "value":
            value = _value(name)
        if value is not None:
            setattr(module, name, value)
    module.__all__ = [name for name in names if not name.startswith("_")]  # type: ignore[attr-defined]
    sys.modules[full] = module
    return module


def _operators() -> None:
    for name in _SURFACE["operators"]:

        def call(*args: Any, _name: str = name, **kwargs: Any) -> Any:
            raise _not_computed(f"torch_npu.{_name}")

        globals().setdefault(name, call)


def _amp(npu: types.ModuleType) -> None:
    class Autocast(torch.amp.autocast):
        def __init__(self, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True) -> None:
            super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class Scaler(torch.amp.GradScaler):
        def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                     growth_interval: int = 2000, dynamic: bool = True, enabled: bool = True) -> None:  # fmt: skip
            super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    amp = npu.amp
    amp.autocast, amp.GradScaler = Autocast, Scaler
    amp.custom_fwd = lambda fwd=None, **kwargs: torch.amp.custom_fwd(fwd, device_type="npu", **kwargs)
    amp.custom_bwd = lambda bwd: torch.amp.custom_bwd(bwd, device_type="npu")


def _collectives() -> None:
    """Run HCCL by gloo, because the tensors of the stand-in are on the CPU."""
    import torch.distributed as dist

    if not dist.is_available():
        return

    def is_hccl_available() -> bool:
        return True

    dist.is_hccl_available = is_hccl_available  # type: ignore[attr-defined]
    dist.distributed_c10d.is_hccl_available = is_hccl_available  # type: ignore[attr-defined]

    def make(store: Any, rank: int, size: int, timeout: Any) -> Any:
        return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)

    dist.Backend.register_backend("hccl", make, devices=["npu", "cpu"])
    original = dist.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        named = backend if backend is not None or kwargs.get("device_id") is not None else "cpu:gloo,npu:hccl"
        _host_random()
        return original(named, *args, **kwargs)

    for module in (dist, dist.distributed_c10d, sys.modules.get("torch.distributed.device_mesh")):
        if hasattr(module, "init_process_group"):
            module.init_process_group = init_process_group  # type: ignore[union-attr]


def _host_random() -> None:
    """Make parts of a distributed tensor draw random numbers as on the CPU, which has no Philox generator."""
    with contextlib.suppress(ImportError):
        import torch.distributed.tensor._dispatch as dispatch

        for module in (dispatch, dispatch.random):
            if hasattr(module, "is_rng_supported_mesh"):
                module.is_rng_supported_mesh = lambda mesh: False


def _accelerator() -> None:
    """Define what torch.accelerator asks of a backend; a backend written in Python cannot answer from C++."""
    accelerator: Any = torch.accelerator
    accelerator.synchronize = lambda device=None, /: None
    accelerator.current_stream = lambda device=None, /: Stream()
    accelerator.set_stream = lambda stream: None
    accelerator.device_count = lambda: _DEVICES
    accelerator.current_device_index = lambda: _device()
    accelerator.set_device_index = lambda device, /: _set_device(device)
    accelerator.empty_cache = lambda: None
    accelerator.get_memory_info = lambda device=None, /: (60 * 2**30, 64 * 2**30)
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
        setattr(accelerator, name, lambda device=None, /: 0)
    for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        setattr(accelerator, name, lambda device=None, /: None)


class _GeneratorType(type(torch.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_GeneratorType):
    """A random generator of the NPU, with the numbers of the CPU's generator."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, "cpu" if torch.device(device).type == "npu" else device)


def _start() -> None:
    registration._setup_privateuseone_for_python_backend("npu", backend_module=_npu)
    npu_tensor.register()
    hermes_split.install()
    refuse.install()
    _accelerator()
    # Weights that two modules share stay shared when they are moved.
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch.utils.swap_tensors = npu_tensor.swap_held(torch.utils.swap_tensors)
    torch.Tensor.pin_memory = lambda self, device=None: self  # type: ignore[method-assign, assignment]
    torch.load = load.of(torch.load)
    torch.Generator = _Generator  # type: ignore[misc]


_npu = _module("torch_npu.npu")
for _full in _SURFACE["modules"]:
    if _full != "torch_npu.npu":
        _parent, _, _last = _full.rpartition(".")
        _made = _module(_full)
        if _parent == "torch_npu":
            globals()[_last] = _made
        else:
            setattr(sys.modules[_parent], _last, _made)
npu = _npu
npu._is_in_bad_fork = lambda: False  # type: ignore[attr-defined]
npu._lazy_init = _nothing  # type: ignore[attr-defined]
npu._lazy_call = lambda call: call()  # type: ignore[attr-defined]
_operators()
_start()
_amp(npu)
sys.modules["torch.npu"] = npu


def _autoload() -> None:
    """Set up the stand-in; torch calls this function when it is imported."""
    _collectives()


if _FIRST and _ASKED != "0":
    torch._import_device_backends()
