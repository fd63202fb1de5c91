"""Sums bytes and time of collectives by kind and group, for `--collectives`, in a small file beside the step log.

The time of a call is its time on the host. Asynchronous calls, and all calls on a device, return before the transfer is
done. Such calls have bytes and a count, but no time. DDP's own collectives are started in C++; for them DDP itself
keeps the bytes of its buckets and, in samples, their duration.
"""

from __future__ import annotations

import _thread
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from hermes.inside.error_guard import Border, silent
from hermes.inside.monitor.ddp_waits import DdpWaits

_EVERY_NS = 5_000_000_000
_MOST = 64
_now = time.perf_counter_ns


class Bandwidth:
    """Sums of collectives since the job began. The sums are written at most every five seconds, in a thread beside the
    training thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._due = _now() + _EVERY_NS
        self._writing = _thread.allocate_lock()
        self._wrapped: list[Any] = []
        self._steps = 0
        self.waits = DdpWaits([])

    def wrap_ddp(self) -> None:
        """Find the DDP modules by looking once at all Python objects, since the modules were made before the first
        step."""
        module = sys.modules.get("torch.nn.parallel.distributed")
        kind = getattr(module, "DistributedDataParallel", None)
        if kind is not None:
            # `isinstance` would ask objects for their class, and some objects that torch has deprecated then warn.
            self._wrapped = [one for one in gc.get_objects() if kind in type(one).__mro__][:_MOST]
            self.waits = DdpWaits(self._wrapped)

    def seen(self, model: Any) -> None:
        """Note a DDP module that computes: a module made later, or one that `gc.freeze` hides from a look at all
        objects."""
        if len(self._wrapped) < _MOST and not any(one is model for one in self._wrapped):
            self._wrapped.append(model)
            self.waits = DdpWaits(self._wrapped)

    def add(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], ns: int) -> None:
        """Add one call of torch.distributed that took `ns` nanoseconds on the host."""
        size, on_host = _size(args)
        group = kwargs.get("group")
        name = str(getattr(group, "group_name", "default") if group is not None else "default")[:60]
        key = (kind, name)
        if key not in self._sums and len(self._sums) >= _MOST:
            key = ("others", "all")
        sums = self._sums.setdefault(key, [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += size
        # A call that returns before the collective is done has no time of its own.
        if on_host and not kwargs.get("async_op"):
            sums[2] += ns
            sums[3] += size

    def step_ended(self, now: int) -> None:
        """Write the sums, at most every few seconds."""
        self._steps += 1
        if now >= self._due:
            self._due = now + _EVERY_NS
            self.write()

    def write(self) -> None:
        """Pass the sums to a thread that writes them; one write runs at a time, and newer sums wait for the next
        write."""
        if self._writing.acquire(blocking=False):
            rows = [
                {"kind": kind, "group": group, "calls": calls, "bytes": timed if ns else size, "ns": ns}
                for (kind, group), (calls, size, ns, timed) in self._sums.items()
            ]
            text = json.dumps({"collectives": [*rows, *self._ddp()]})
            try:
                _thread.start_new_thread(Border(silent).entry(self._replace), (text,))
            except RuntimeError:
                self._writing.release()

    def _replace(self, text: str) -> None:
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            draft.replace(self._path)
        except OSError:
            return
        finally:
            self._writing.release()

    def _ddp(self) -> list[dict[str, object]]:
        """DDP's own account of its reductions: the bytes of its buckets per step, with the mean time of the sampled
        reductions."""
        rows: list[dict[str, object]] = []
        for place, model in enumerate(self._wrapped):
            try:
                facts = model._get_ddp_logging_data()
                size, ns = int(facts["total_parameter_size_bytes"]), int(facts.get("avg_backward_comm_time", 0))
            except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
                continue
            group = "default" if place == 0 else f"model {place}"
            steps = self._steps
            rows.append(
                {"kind": "DDP all_reduce", "group": group, "calls": steps, "bytes": size * steps, "ns": ns * steps}
            )
        return rows


def _size(args: tuple[Any, ...]) -> tuple[int, bool]:
    """Bytes of the largest buffer of a call, where a list of tensors counts as one buffer; and whether all are on the
    host."""
    largest, on_host = 0, True
    for one in args[:2]:
        tensors = one if isinstance(one, (list, tuple)) else (one,)
        try:
            size = sum(int(tensor.numel() * tensor.element_size()) for tensor in tensors)
            on_host = on_host and all(tensor.is_cpu for tensor in tensors)
        except (AttributeError, TypeError):
            continue
        largest = max(largest, size)
    return largest, on_host
