"""What collectives move, by kind and group, where `--collectives` asks for it; a small file beside the step log tells.

The time of a call is that of its host: of calls that return before they are done (asynchronous ones, and all on a
device) bytes and calls are counted and no time. DDP's own collectives are started in C++; of these DDP itself keeps the
bytes of its buckets and, in samples, how long they took.
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

from hermes.inside.border import Border, silent

_EVERY_NS = 5_000_000_000
_MOST = 64
_now = time.perf_counter_ns


class Bandwidth:
    """Sums since the job began. Written at most each five seconds, beside the training thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._due = _now() + _EVERY_NS
        self._writing = _thread.allocate_lock()
        self._wrapped: list[Any] = []
        self._steps = 0

    def wrap_ddp(self) -> None:
        """Find the modules of DDP: one look at all objects, since they were made before the first step."""
        module = sys.modules.get("torch.nn.parallel.distributed")
        kind = getattr(module, "DistributedDataParallel", None)
        if kind is not None:
            # `isinstance` would ask objects for their class, and some that torch has deprecated warn of that.
            self._wrapped = [one for one in gc.get_objects() if kind in type(one).__mro__][:_MOST]

    def add(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], ns: int) -> None:
        """A call of torch.distributed that took the host so long."""
        size, on_host = _size(args)
        group = kwargs.get("group")
        name = str(getattr(group, "group_name", "default") if group is not None else "default")[:60]
        key = (kind, name)
        if key not in self._sums and len(self._sums) >= _MOST:
            key = ("others", "all")
        sums = self._sums.setdefault(key, [0, 0, 0, 0])
        sums[0] += 1
        sums[1] += size
        # What returns before it is done has no time that is its own.
        if on_host and not kwargs.get("async_op"):
            sums[2] += ns
            sums[3] += size

    def step_ended(self, now: int) -> None:
        """Write what there is, now and then."""
        self._steps += 1
        if now >= self._due:
            self._due = now + _EVERY_NS
            self.write()

    def write(self) -> None:
        """Hand the sums to a thread that writes them; one at a time, and what comes meanwhile waits for the next."""
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
        """What DDP says of its own reductions: its buckets' bytes each step, by the mean time of the sampled ones."""
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
    """Bytes of the largest buffer of a call, where a list of tensors is one; and whether all are on the host."""
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
