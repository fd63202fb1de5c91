"""Wraps the few calls of torch that the monitor must see, and unwraps them; each wrapper calls the wrapped function."""

from __future__ import annotations

import functools
import sys
import time
from threading import get_ident
from types import ModuleType
from typing import Any, Callable, Tuple

from hermes.inside.error_guard import Border
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.garbage_collections import Collections
from hermes.inside.monitor.loaders import keep
from hermes.inside.monitor.step_meter import LONG_NS, StepMeter
from hermes.inside.wire.step_record import NULL

_ROWS = (list, tuple)
_now, _thread_ns = time.perf_counter_ns, time.thread_time_ns

COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "broadcast", "reduce", "barrier",
)  # fmt: skip

TRANSFERS = ("to", "cuda", "npu")

_Parts = Tuple[Callable[..., Any], Callable[..., None]]
"""The functions called before and after a wrapped call, in the order that `Border.around` takes them."""


class Patches:
    """The replaced functions, kept to restore them later, and the callback for garbage collections.

    No function is wrapped that a compiler looks up by identity, unless `collectives` asks for it: TorchDynamo rewrites
    the functions of torch.distributed, and would not know a wrapper. No method of tensors is wrapped, unless
    `transfers` asks for it.
    """

    def __init__(self, meter: StepMeter, border: Border) -> None:
        self._meter = meter
        self._border = border
        self.collections = Collections(border.entry(meter.collection))
        self._undo: list[tuple[Any, str, object, object]] = []

    def install(self, *, collectives: bool, transfers: bool = False, bandwidth: Bandwidth | None = None) -> None:
        """Wrap the functions of loaded modules; a module that the job has not imported is left alone."""
        meter = self._meter
        profiler = sys.modules.get("torch.autograd.profiler")
        if not getattr(profiler, "_is_profiler_enabled", False):
            self.collections.listen()
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader:
            self._wrap(loader._BaseDataLoaderIter, "__next__", _next(meter))
            self._wrap(loader.DataLoader, "__iter__", _iter(meter))
        if "torch.autograd" in sys.modules:
            self._wrap(sys.modules["torch.autograd"], "backward", _backward(meter))
        if "torch" in sys.modules:
            self._wrap(sys.modules["torch"], "save", _save(meter))
        self._wrap_profiler(profiler)
        if collectives and "torch.distributed" in sys.modules:
            self._wrap_collectives(sys.modules["torch.distributed"], bandwidth)
        if transfers and "torch" in sys.modules:
            tensor = sys.modules["torch"].Tensor
            meter.uses_transfers = True
            for name in TRANSFERS:
                # torch_npu adds a method of its own.
                if hasattr(tensor, name):
                    self._wrap(tensor, name, _transfer(meter))

    def _wrap_profiler(self, profiler: ModuleType | None) -> None:
        """Wrap the functions that torch, since 2.1, calls before its profiler starts and after its profiler has
        ended."""
        listen, pause = self.collections.listen, self.collections.pause
        if profiler is not None and hasattr(profiler, "_run_on_profiler_start"):
            self._wrap(profiler, "_run_on_profiler_start", (lambda _args, _kwargs: pause(), _nothing))
            self._wrap(profiler, "_run_on_profiler_stop", (_start, lambda *_: listen()))

    def _wrap_collectives(self, distributed: ModuleType, bandwidth: Bandwidth | None) -> None:
        for name in COLLECTIVES:
            if hasattr(distributed, name):
                self._wrap(distributed, name, _collective(self._meter, name, bandwidth))
        for holder, name in _waiting():
            self._wrap(holder, name, _waits(self._meter))
        ddp = _ddp()
        if bandwidth is not None and hasattr(ddp, "_pre_forward"):
            self._wrap(ddp, "_pre_forward", _seen(bandwidth))

    def _wrap(self, holder: type | ModuleType, name: str, parts: _Parts) -> None:
        original = getattr(holder, name)
        inherited = name not in vars(holder)
        wrapper = functools.wraps(original)(self._border.around(original, *parts))
        setattr(holder, name, wrapper)
        self._undo.append((holder, name, None if inherited else original, wrapper))

    def remove(self) -> None:
        """Put every replaced function back, except where somebody else has wrapped it since."""
        self.collections.end()
        for holder, name, original, wrapper in reversed(self._undo):
            if vars(holder).get(name) is wrapper:
                # An inherited function is found again in its class once the wrapper is removed.
                delattr(holder, name) if original is None else setattr(holder, name, original)
        self._undo.clear()


def _next(meter: StepMeter) -> _Parts:
    m = meter

    def before(_args: Any, _kwargs: Any) -> tuple[int, int] | None:
        if m.depth or get_ident() != m.thread:
            return None
        m.uses_loader = True
        m.depth = 1
        cpu = _thread_ns() if m.split else 0
        return cpu, _now()

    def after(given: Any, _args: Any, _kwargs: Any, batch: Any, ended: bool) -> None:
        end = _now()
        cpu, start = given
        m.depth = 0
        m.data_ns += end - start
        if cpu:
            m.data_cpu_ns += _thread_ns() - cpu
        m.long = end - start >= LONG_NS
        if not ended:
            return
        m.batches += 1
        m.unused += 1
        m.forward_from = end
        if m.fresh:
            m.first_batch(end - start)
        if m.kept is not None:
            keep(m.kept, batch)
        # A faster `StepMeter.tally` for the batches that most loaders return.
        first = batch[0] if batch.__class__ in _ROWS and batch else batch
        shape = getattr(first, "shape", None)
        if shape and isinstance(shape, tuple) and m.tokens == NULL:
            m.samples = shape[0] + (0 if m.samples == NULL else m.samples)
        else:
            m.tally(batch)

    return before, after


def _iter(meter: StepMeter) -> _Parts:
    def before(args: Any, _kwargs: Any) -> tuple[int, int, bool] | None:
        if meter.depth or get_ident() != meter.thread:
            return None
        (loader,) = args
        meter.uses_loader = True
        workers = bool(getattr(loader, "num_workers", 0)) and getattr(loader, "_iterator", None) is None
        meter.depth = 1
        return _now(), _thread_ns(), workers

    def after(given: Any, *_: object) -> None:
        start, cpu, workers = given
        meter.depth = 0
        took = _now() - start
        meter.data_ns += took
        if workers:
            meter.started(took)
        if meter.split:
            meter.data_cpu_ns += _thread_ns() - cpu

    return before, after


def _backward(meter: StepMeter) -> _Parts:
    m = meter

    def before(args: Any, kwargs: Any) -> int | None:
        if m.depth or get_ident() != m.thread:
            return None
        m.uses_backward = True
        m.depth = 1
        if m.look:
            m.loss = args or tuple(kwargs.values())
        start = _now()
        # The time between the last batch and the backward pass is the forward pass.
        if m.forward_from:
            m.forward_ns += start - m.forward_from
        return start

    def after(start: int, *_: object) -> None:
        m.depth = 0
        m.forward_from = end = _now()
        m.backward_ns += end - start
        if m.unused:
            m.unused -= 1
        if m.optimizer_from:
            # The optimizer's step began with a closure, as in Lightning: the time so far belongs to the passes.
            m.optimizer_from = end

    return before, after


def _save(meter: StepMeter) -> _Parts:
    def after(start: int, *_: object) -> None:
        meter.saved(_now() - start)

    return _start, after


def _start(_args: Any, _kwargs: Any) -> int:
    """The time at which a call begins."""
    return _now()


def _collective(meter: StepMeter, name: str, bandwidth: Bandwidth | None) -> _Parts:
    def after(start: int, args: Any, kwargs: Any, *_: object) -> None:
        took = _now() - start
        meter.inside_collective = False
        meter.uses_collectives = True
        meter.communicated(took, _bytes_of(args))
        if bandwidth is not None:
            bandwidth.add(name, args, kwargs, took)

    return _entering(meter), after


def _waits(meter: StepMeter) -> _Parts:
    """Wrap a wait for a collective that another call started: the time counts at the wait, the bytes at the start."""

    def after(start: int, *_: object) -> None:
        meter.inside_collective = False
        meter.uses_collectives = True
        meter.communicated(_now() - start, 0)

    return _entering(meter), after


def _entering(meter: StepMeter) -> Callable[..., int | None]:
    """A function that returns when a collective begins; None inside another collective, and on another thread."""

    def before(_args: Any, _kwargs: Any) -> int | None:
        if meter.inside_collective or get_ident() != meter.thread:
            return None
        meter.inside_collective = True
        return _now()

    return before


def _ddp() -> Any:
    return getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)


def _seen(bandwidth: Bandwidth) -> _Parts:
    def before(args: Any, _kwargs: Any) -> None:
        bandwidth.seen(args[0])

    return before, _nothing


def _nothing(*_: object) -> None:
    """Do nothing: for a wrapped call of which only the begin matters."""


def _waiting() -> list[tuple[Any, str]]:
    """Methods that wait for collectives: methods of asynchronous handles, and of DDP's buffers."""
    distributed = sys.modules["torch.distributed"]
    found = [(getattr(distributed, "Work", None), "wait"), (_ddp(), "_sync_buffers")]
    return [(holder, name) for holder, name in found if hasattr(holder, name)]


def _transfer(meter: StepMeter) -> _Parts:
    m = meter

    def before(_args: Any, _kwargs: Any) -> int | None:
        # Copies by a loader count as loading; a prefetching thread delays no step.
        return None if m.depth or get_ident() != m.thread else _now()

    def after(start: int, args: Any, _kwargs: Any, moved: Any, ended: bool) -> None:
        if ended and moved is not args[0] and args[0].is_cpu and not getattr(moved, "is_cpu", True):
            m.moved_ns += _now() - start

    return before, after


def _bytes_of(args: tuple[Any, ...]) -> int:
    first = args[0] if args else None
    try:
        return int(first.numel() * first.element_size())  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        return 0
