"""Device events are recorded once a step and only asked: against a device whose queue the test drains by hand."""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any

import pytest
from tests.inside.conftest import Column, Place

from hermes.inside.monitor.device import MOST, DeviceClock, device_clock
from hermes.inside.wire.step_record import NULL

pytestmark = pytest.mark.live

MS = 1_000_000


class Device:
    """What `torch.cuda` does with events: they are done when the queue has come to them, and only then have a time."""

    def __init__(self) -> None:
        self.made = 0
        self.reached = 0
        self.queued = 0
        self.capturing = False
        self.Event = self._make

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def work(self, ms: int) -> None:
        self.queued += ms

    def finish(self, ms: int | None = None) -> None:
        self.reached = self.queued if ms is None else self.reached + ms

    def _make(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        self.made += 1
        return Event(self)


class Event:
    """Has the calls of `torch.cuda.Event` that never wait, and no other."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.at: int | None = None

    def record(self) -> None:
        assert not self.device.capturing
        self.at = self.device.queued

    def query(self) -> bool:
        assert not self.device.capturing
        # As CUDA has it, an event that was never recorded is done.
        return self.at is None or self.at <= self.device.reached

    def elapsed_time(self, end: Event) -> float:
        if self.at is None or end.at is None or not (self.query() and end.query()):
            raise RuntimeError("both events must be recorded and done")
        return float(end.at - self.at)


def test_a_device_that_keeps_up_gives_each_step_its_time() -> None:
    device = Device()
    clock = DeviceClock(device)
    told = []
    for ms in (5, 7, 9):
        device.work(ms)
        device.finish()
        told.append(clock.step_ended())
    # The first step began before the clock did.
    assert told == [NULL, 7 * MS, 9 * MS]
    assert device.made <= 3


def test_a_device_that_is_behind_gives_times_late_and_in_order() -> None:
    device = Device()
    clock = DeviceClock(device)
    told = []
    for number in range(6):
        device.work(10 + number)
        told.append(clock.step_ended())
    assert told == [NULL] * 6
    device.finish()
    told = [clock.step_ended() for _ in range(4)]
    assert told == [11 * MS, 12 * MS, 13 * MS, 14 * MS]


def test_events_are_bounded_and_steps_without_one_are_nobodys_time() -> None:
    device = Device()
    clock = DeviceClock(device)
    for _ in range(10 * MOST):
        device.work(3)
        clock.step_ended()
    assert device.made == MOST
    device.finish()
    told = [clock.step_ended() for _ in range(MOST - 1)]
    assert told == [3 * MS] * (MOST - 1)
    told = []
    for _ in range(3):
        device.work(4)
        device.finish()
        told.append(clock.step_ended())
    assert told == [NULL, 4 * MS, 4 * MS]


def test_nothing_is_asked_while_a_graph_is_captured() -> None:
    device = Device()
    clock = DeviceClock(device)
    device.work(2)
    clock.step_ended()
    device.capturing = True
    assert clock.step_ended() == NULL
    device.capturing = False
    told = []
    for _ in range(2):
        device.work(6)
        device.finish()
        told.append(clock.step_ended())
    assert told == [NULL, 6 * MS]


@pytest.mark.parametrize("used", [True, False])
def test_only_a_device_in_use_has_a_clock(used: bool) -> None:
    device: Any = Device()
    device.is_initialized = lambda: used
    assert (device_clock({"torch": types.SimpleNamespace(cuda=device)}) is not None) is used
    assert device_clock({}) is None


@pytest.mark.usefixtures("with_torch")
def test_the_calls_are_those_of_torch() -> None:
    import torch

    assert "enable_timing" in inspect.signature(torch.cuda.Event.__new__).parameters
    inspect.signature(torch.cuda.Event.record).bind(None)
    inspect.signature(torch.cuda.Event.query).bind(None)
    inspect.signature(torch.cuda.Event.elapsed_time).bind(None, None)
    assert callable(torch.cuda.is_current_stream_capturing)
    assert device_clock(sys.modules) is None


_LOOP = """
    import sys, types
    import hermes.inside as capture
    class Event:
        def __init__(self, enable_timing): pass
        def record(self): {record}
        def query(self): return True
        def elapsed_time(self, end): return 2.5
    device = types.SimpleNamespace(Event=Event, is_initialized=lambda: True, get_device_name=lambda: "none",
                                   memory_allocated=lambda: 7)
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch"].cuda, sys.modules["torch"].save = device, print
    capture.start(device_events={wanted})
    for _ in range(6):
        capture.step()
    print("done")
"""


@pytest.mark.parametrize("wanted", [True, False])
def test_the_time_stands_in_the_records_when_it_is_wanted(place: Place, column: Column, wanted: bool) -> None:
    done = place.python(_LOOP.format(record="pass", wanted=wanted))
    assert (done.returncode, done.stderr) == (0, "")
    times = column(place.jobs()[0].log_path(0), "device_ns")
    assert times == ([None] + [2_500_000] * 4 if wanted else [None] * 5)


def test_an_event_that_fails_ends_the_capture_and_not_the_job(place: Place) -> None:
    done = place.python(_LOOP.format(record="raise RuntimeError('no device')", wanted=True))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr == "hermes: capture is off: RuntimeError: no device\n"
