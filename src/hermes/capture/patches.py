"""Wraps the few calls of torch that the monitor must see, and unwraps them; each wrapper calls what it wrapped."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from hermes.capture.meter import Meter

COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all",
    "all_to_all_single", "broadcast", "reduce", "barrier",
)  # fmt: skip


class Patches:
    """What was replaced, so that it can be put back.

    Nothing is wrapped that a compiler looks up by identity, unless `collectives` asks for it: TorchDynamo rewrites
    the functions of torch.distributed, and would not know a wrapper.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._undo: list[tuple[Any, str, object, object]] = []

    def install(self, *, collectives: bool) -> None:
        """Wrap what is loaded; a module that the job has not imported is left alone."""
        meter = self._meter
        gc.callbacks.append(meter.collection)
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
                    self._wrap(distributed, name, _collective(meter))

    def _wrap(self, holder: type | ModuleType, name: str, wrap: Callable[[Any], Callable[..., object]]) -> None:
        original = getattr(holder, name)
        wrapper = functools.wraps(original)(wrap(original))
        setattr(holder, name, wrapper)
        self._undo.append((holder, name, original, wrapper))

    def remove(self) -> None:
        """Put everything back that nobody else has wrapped since."""
        if self._meter.collection in gc.callbacks:
            gc.callbacks.remove(self._meter.collection)
        for holder, name, original, wrapper in reversed(self._undo):
            if vars(holder).get(name) is wrapper:
                setattr(holder, name, original)
        self._undo.clear()


def _next(meter: Meter) -> Callable[[Any], Callable[..., object]]:
    def wrap(original: Any) -> Callable[..., object]:
        def next_batch(self: Any) -> object:
            return meter.wait_for_data(original, self, True)

        return next_batch

    return wrap


def _iter(meter: Meter) -> Callable[[Any], Callable[..., object]]:
    def wrap(original: Any) -> Callable[..., object]:
        def begin(self: Any) -> object:
            return meter.wait_for_data(original, self, False)

        return begin

    return wrap


def _backward(meter: Meter) -> Callable[[Any], Callable[..., object]]:
    def wrap(original: Any) -> Callable[..., object]:
        def backward(*args: Any, **kwargs: Any) -> object:
            return meter.backward(original, args, kwargs)

        return backward

    return wrap


def _save(meter: Meter) -> Callable[[Any], Callable[..., object]]:
    def wrap(original: Any) -> Callable[..., object]:
        def save(*args: Any, **kwargs: Any) -> object:
            return meter.save(lambda: original(*args, **kwargs))

        return save

    return wrap


def _collective(meter: Meter) -> Callable[[Any], Callable[..., object]]:
    def wrap(original: Any) -> Callable[..., object]:
        def collective(*args: Any, **kwargs: Any) -> object:
            return meter.communicate(lambda: original(*args, **kwargs), _bytes_of(args))

        return collective

    return wrap


def _bytes_of(args: tuple[Any, ...]) -> int:
    first = args[0] if args else None
    try:
        return int(first.numel() * first.element_size())  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        return 0
