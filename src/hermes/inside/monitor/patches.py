"""Wraps the few calls of torch that the monitor must see, and unwraps them; each wrapper calls what it wrapped."""

from __future__ import annotations

import functools
import gc
import sys
import time
from threading import get_ident
from types import ModuleType
from typing import Any, Callable, Tuple

from hermes.inside.border import Border
from hermes.inside.monitor.bandwidth import Bandwidth
from hermes.inside.monitor.loaders import keep
from hermes.inside.monitor.meter import LONG_NS, Meter
from hermes.inside.wire.record import NULL

_ROWS = (list, tuple)
_now, _thread_ns = time.perf_counter_ns, time.thread_time_ns

COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "broadcast", "reduce", "barrier",
)  # fmt: skip

TRANSFERS = ("to", "cuda", "npu")

_Parts = Tuple[Callable[..., Any], Callable[..., None]]
"""What is called before and after a call, as `Border.around` takes it."""


class Patches:
    """What was replaced, so that it can be put back.

    Nothing is wrapped that a compiler looks up by identity, unless `collectives` asks for it: TorchDynamo rewrites
    the functions of torch.distributed, and would not know a wrapper. Nor methods of tensors, unless `transfers` does.
    """

    def __init__(self, meter: Meter, border: Border) -> None:
        self._meter = meter
        self._border = border
        self._collection = border.entry(meter.collection)
        self._undo: list[tuple[Any, str, object, object]] = []

    def install(self, *, collectives: bool, transfers: bool = False, bandwidth: Bandwidth | None = None) -> None:
        """Wrap what is loaded; a module that the job has not imported is left alone."""
        meter = self._meter
        gc.callbacks.append(self._collection)
        loader = sys.modules.get("torch.utils.data.dataloader")
        if loader:
            self._wrap(loader._BaseDataLoaderIter, "__next__", _next(meter))
            self._wrap(loader.DataLoader, "__iter__", _iter(meter))
        if "torch.autograd" in sys.modules:
            self._wrap(sys.modules["torch.autograd"], "backward", _backward(meter))
        if "torch" in sys.modules:
            self._wrap(sys.modules["torch"], "save", _save(meter))
        if collectives and "torch.distributed" in sys.modules:
            distributed = sys.modules["torch.distributed"]
            for name in COLLECTIVES:
                if hasattr(distributed, name):
                    self._wrap(distributed, name, _collective(meter, name, bandwidth))
        if transfers and "torch" in sys.modules:
            tensor = sys.modules["torch"].Tensor
            meter.uses_transfers = True
            for name in TRANSFERS:
                # torch_npu adds a method of its own.
                if hasattr(tensor, name):
                    self._wrap(tensor, name, _transfer(meter))

    def _wrap(self, holder: type | ModuleType, name: str, parts: _Parts) -> None:
        original = getattr(holder, name)
        inherited = name not in vars(holder)
        wrapper = functools.wraps(original)(self._border.around(original, *parts))
        setattr(holder, name, wrapper)
        self._undo.append((holder, name, None if inherited else original, wrapper))

    def remove(self) -> None:
        """Put everything back that nobody else has wrapped since."""
        if self._collection in gc.callbacks:
            gc.callbacks.remove(self._collection)
        for holder, name, original, wrapper in reversed(self._undo):
            if vars(holder).get(name) is wrapper:
                # What was inherited is found again where it was.
                delattr(holder, name) if original is None else setattr(holder, name, original)
        self._undo.clear()


def _next(meter: Meter) -> _Parts:
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
        # As `Meter.tally`, for what most loaders hand out.
        first = batch[0] if batch.__class__ in _ROWS and batch else batch
        shape = getattr(first, "shape", None)
        if shape and isinstance(shape, tuple) and m.tokens == NULL:
            m.samples = shape[0] + (0 if m.samples == NULL else m.samples)
        else:
            m.tally(batch)

    return before, after


def _iter(meter: Meter) -> _Parts:
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


def _backward(meter: Meter) -> _Parts:
    m = meter

    def before(args: Any, kwargs: Any) -> int | None:
        if m.depth or get_ident() != m.thread:
            return None
        m.uses_backward = True
        m.depth = 1
        if m.look:
            m.loss = args or tuple(kwargs.values())
        start = _now()
        # What lies between the last batch and the backward pass is the forward pass.
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
            # The optimizer's step began with a closure, as in Lightning: what it did so far is the passes'.
            m.optimizer_from = end

    return before, after


def _save(meter: Meter) -> _Parts:
    def after(start: int, *_: object) -> None:
        meter.saved(_now() - start)

    return _start, after


def _start(_args: Any, _kwargs: Any) -> int:
    """When a call begins."""
    return _now()


def _collective(meter: Meter, name: str, bandwidth: Bandwidth | None) -> _Parts:
    def after(start: int, args: Any, kwargs: Any, *_: object) -> None:
        took = _now() - start
        meter.uses_collectives = True
        meter.communicated(took, _bytes_of(args))
        if bandwidth is not None and get_ident() == meter.thread:
            bandwidth.add(name, args, kwargs, took)

    return _start, after


def _transfer(meter: Meter) -> _Parts:
    m = meter

    def before(_args: Any, _kwargs: Any) -> int | None:
        # What a loader moves is its own; a thread that prefetches holds up no step.
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
