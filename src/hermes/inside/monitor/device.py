"""Times steps on the device by the framework's own events: recorded when a step ends, asked later, never waited for."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.inside.wire.record import NULL

MOST = 64
"""Events under way at most: a device that is so many steps behind gets no more until it has caught up."""


class DeviceClock:
    """Device time from the end of one step to the end of the next, as the stream of the stepping thread sees it."""

    def __init__(self, device: Any) -> None:
        """`device` is `torch.cuda` or `torch.npu`; it is in use already."""
        self._make = device.Event
        self._capturing = getattr(device, "is_current_stream_capturing", None)
        self._open: deque[Any] = deque()
        self._spare: list[Any] = []
        self._behind = False

    def step_ended(self) -> int:
        """Record an event behind what the step has queued; nanoseconds of a step that the device finished, or `NULL`.

        A step is told once, a few steps late when the device runs behind; of several that it finished, the oldest.
        Raises what the framework raises.
        """
        if self._capturing is not None and self._capturing():
            # An event recorded or asked for now would end up in the graph, or break its capture.
            self._forget()
            return NULL
        if not self._behind:
            event = self._spare.pop() if self._spare else self._make(enable_timing=True)
            event.record()
            self._open.append(event)
            self._behind = len(self._open) >= MOST
        took = self._oldest()
        if self._behind and len(self._open) < 2:
            # Steps without an event lie between the last one and the next: begin anew.
            self._forget()
            self._behind = False
        return took

    def _oldest(self) -> int:
        if len(self._open) < 2 or not self._open[1].query():
            return NULL
        first, second = self._open.popleft(), self._open[0]
        took: int = round(first.elapsed_time(second) * 1e6)
        self._spare.append(first)
        return took

    def _forget(self) -> None:
        """The next step is timed from its own end."""
        self._open.clear()


def device_clock(modules: Mapping[str, object]) -> DeviceClock | None:
    """The clock of the device that torch uses in this process; None where it uses none, and initialises none."""
    for device in initialised(modules):
        with contextlib.suppress(RuntimeError, AttributeError):
            return DeviceClock(device)
    return None


def initialised(modules: Mapping[str, object]) -> Iterator[Any]:
    """Modules of torch for kinds of devices that this process uses already, as `torch.cuda`; none is initialised."""
    torch = modules.get("torch")
    for name in ("npu", "cuda"):
        device, used = getattr(torch, name, None), False
        with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
            used = device is not None and device.is_initialized()
        if used:
            yield device
