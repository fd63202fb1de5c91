"""Times steps on the device by the framework's events: recorded when a step ends, read later, never waited for."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from hermes.inside.wire.step_record import NULL

MOST = 64
"""Largest number of pending events: a device that is this many steps behind gets no more events until it has caught
up."""


class DeviceClock:
    """A clock of device time from the end of one step to the end of the next, on the stream of the stepping thread."""

    def __init__(self, device: Any) -> None:
        """`device` is `torch.cuda` or `torch.npu`; the device is in use already."""
        self._make = device.Event
        self._capturing = getattr(device, "is_current_stream_capturing", None)
        self._open: deque[Any] = deque()
        self._spare: list[Any] = []
        self._behind = False

    def step_ended(self) -> int:
        """Record an event behind the step's queued work; returns the ns of a step that the device has finished, or
        `NULL`.

        Each step is reported once, a few steps late if the device runs behind. If the device has finished several, the
        oldest comes first. Raises what the framework raises.
        """
        if self._capturing is not None and self._capturing():
            # An event recorded or queried now would become part of the graph under capture, or break the graph's
            # capture.
            self._forget()
            return NULL
        if not self._behind:
            event = self._spare.pop() if self._spare else self._make(enable_timing=True)
            event.record()
            self._open.append(event)
            self._behind = len(self._open) >= MOST
        took = self._oldest()
        if self._behind and len(self._open) < 2:
            # Steps without an event lie between the last event and the next: begin anew.
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
        """Drop the pending time: the next step is timed from its own end on."""
        self._open.clear()


def device_clock(modules: Mapping[str, object]) -> DeviceClock | None:
    """The clock of the device that torch uses in this process; None without a device. No device is initialised."""
    for device in initialised(modules):
        with contextlib.suppress(RuntimeError, AttributeError):
            return DeviceClock(device)
    return None


def initialised(modules: Mapping[str, object]) -> Iterator[Any]:
    """Modules of torch for the kinds of devices that this process already uses, such as `torch.cuda`; none is
    initialised."""
    torch = modules.get("torch")
    for name in ("npu", "cuda"):
        device, used = getattr(torch, name, None), False
        with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
            used = device is not None and device.is_initialized()
        if used:
            yield device
