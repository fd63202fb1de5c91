"""Sums within one step: waits for data, passes, collections, saving; added up by the wrappers in `patches`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from hermes.live.record import FLAGS, NULL

_now = time.perf_counter_ns
_thread_ns = time.thread_time_ns
_LONG_NS = 100_000
"""A wait for data from which on it is worth knowing who worked in it."""
_SPLIT_NS = 2_000_000
"""Who worked is asked in steps at least this far apart: it takes two system calls for each batch."""
_IN_EVALUATION = FLAGS["evaluation"]
_EVALUATION = 2
"""Batches in a step that no backward pass uses, from which on it counts as one with an evaluation."""


class Meter:
    """What the stepping thread has spent since its last step ended. Times are nanoseconds of host time.

    Calls of other threads are let through unmeasured: a thread that prefetches waits for no step.
    """

    __slots__ = (
        "_ahead", "_depth", "_forward_from", "_long", "_split_at", "_unused", "backward_ns", "batches", "comm_bytes",
        "comm_ns", "data_cpu_ns", "data_ns", "flags", "forward_ns", "gc_count", "gc_from", "gc_ns", "optimizer_from",
        "optimizer_ns", "samples", "save_ns", "split", "thread", "tokens", "uses_backward", "uses_collectives",
        "uses_loader",
    )  # fmt: skip

    def __init__(self) -> None:
        self.thread = get_ident()
        self.uses_loader = self.uses_backward = self.uses_collectives = False
        self._depth = 0
        self._forward_from = self.optimizer_from = self.gc_from = 0
        # Batches that no backward pass has used yet, now and when the last step ended: some loops fetch ahead.
        self._unused = self._ahead = 0
        self._long = True
        self._split_at = -_SPLIT_NS
        self.reset(0)

    def reset(self, now: int) -> None:
        """Begin a step at that time of the clock."""
        self.data_ns = self.data_cpu_ns = self.forward_ns = self.backward_ns = self.optimizer_ns = self.save_ns = 0
        self.gc_ns = self.gc_count = self.batches = self.flags = self.comm_ns = self.comm_bytes = 0
        self.samples = self.tokens = NULL
        self._forward_from = 0
        self.split = self._long and now - self._split_at >= _SPLIT_NS
        if self.split:
            self._split_at = now

    def evaluated(self) -> int:
        """The flag of a step, ending now, in which batches were left over; those fetched ahead are not."""
        if self._unused - self._ahead >= _EVALUATION:
            self._unused = self._ahead
            return _IN_EVALUATION if self.uses_backward else 0
        self._ahead = self._unused
        return 0

    def wait_for_data(self, call: Callable[[Any], object], loader: object, counts: bool) -> object:
        """Do `call` with the loader: it waits for a batch when it `counts`, else for the loader's workers."""
        if self._depth or get_ident() != self.thread:
            return call(loader)
        self.uses_loader = True
        self._depth = 1
        split = self.split
        cpu = _thread_ns() if split else 0
        start = _now()
        try:
            batch = call(loader)
        finally:
            self._depth = 0
            end = _now()
            self.data_ns += end - start
            if split:
                self.data_cpu_ns += _thread_ns() - cpu
            self._long = end - start >= _LONG_NS
        if counts:
            self.batches += 1
            self._forward_from = end
            self._unused += 1
            self._count(batch)
        return batch

    def _count(self, batch: object) -> None:
        """Add the extent of a batch; one that tells none makes the sum unknown."""
        if type(batch) in (list, tuple) and batch:
            batch = batch[0]  # type: ignore[index]
        shape = getattr(batch, "shape", None)
        if shape is not None and len(shape) != 0 and self.tokens == NULL:
            self.samples = int(shape[0]) + (0 if self.samples == NULL else self.samples)
            return
        samples, tokens = extent(batch)
        self.samples = samples if self.samples == NULL else self.samples + samples if samples != NULL else NULL
        self.tokens = tokens if self.tokens == NULL else self.tokens + tokens if tokens != NULL else NULL

    def backward(self, call: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Do `call`, a backward pass; what lies between the last batch and it is the forward pass."""
        if self._depth or get_ident() != self.thread:
            return call(*args, **kwargs)
        self.uses_backward = True
        self._depth = 1
        start = _now()
        if self._forward_from:
            self.forward_ns += start - self._forward_from
        try:
            return call(*args, **kwargs)
        finally:
            self._depth = 0
            self._forward_from = end = _now()
            self.backward_ns += end - start
            if self._unused:
                self._unused -= 1
            if self.optimizer_from:
                # The optimizer's step began with a closure, as in Lightning: what it did so far is the passes'.
                self.optimizer_from = end

    def save(self, call: Callable[[], object]) -> object:
        """Do `call`, which writes a checkpoint."""
        start = _now()
        try:
            return call()
        finally:
            if get_ident() == self.thread:
                self.save_ns += _now() - start
                self.flags |= FLAGS["checkpoint"]

    def communicate(self, call: Callable[[], object], size: int) -> object:
        """Do `call`, a collective on that many bytes."""
        self.uses_collectives = True
        start = _now()
        try:
            return call()
        finally:
            if get_ident() == self.thread:
                self.comm_ns += _now() - start
                self.comm_bytes += size

    def optimizer_begins(self, _optimizer: object) -> None:
        """Called before an optimizer's step."""
        self.optimizer_from = _now()

    def collection(self, phase: str, _info: object) -> None:
        """A callback for `gc.callbacks`."""
        if phase == "start":
            self.gc_from = _now()
        elif self.gc_from:
            self.gc_ns += _now() - self.gc_from
            self.gc_count += 1
            self.gc_from = 0


def extent(batch: object) -> tuple[int, int]:
    """Samples and tokens of a batch, by the shape of its first tensor; `NULL` for what it does not tell.

    Tokens are counted for the key `input_ids`, as models of text name it, when it has two dimensions.
    """
    text = False
    if isinstance(batch, Mapping):
        text = "input_ids" in batch
        batch = batch["input_ids"] if text else next(iter(batch.values()), None)
    elif isinstance(batch, (tuple, list)) and batch:
        batch = batch[0]
    shape = getattr(batch, "shape", None)
    try:
        if not shape:
            return NULL, NULL
        samples = int(shape[0])
        return samples, samples * int(shape[1]) if text and len(shape) == 2 else NULL
    except (TypeError, ValueError, IndexError):
        return NULL, NULL
