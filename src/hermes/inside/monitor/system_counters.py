"""Reads the system's counters of a thread and a process, for a microsecond each; a missing counter is `NULL`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from hermes.inside.standard_library import standard
from hermes.inside.wire.open_files import OpenFile
from hermes.inside.wire.ring import LATE_NS
from hermes.inside.wire.step_record import NULL

_resource: Any = standard("resource")
_SCHEDSTAT, _STATM = "/proc/thread-self/schedstat", "/proc/self/statm"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_NS = 250_000_000
READ_NS = LATE_NS
"""Shortest time in ns between two reads of the counters."""
_NOT_SAMPLED = (NULL,) * 7
NOTHING = (NULL,) * 10
"""The result of a read that came too soon."""


class SystemCounters:
    """The counters of the thread that made this object and of its process; a read returns the growth since the last
    read.

    Between steps that use the caches for other data, a system call costs several times what it costs in a loop: each
    step makes only one.
    """

    __slots__ = ("_cpu_ns", "_delay_ns", "_memory", "_sampled", "_sampled_ns", "_schedstat", "_slices", "read_ns")

    def __init__(self) -> None:
        # Files of /proc stay open: opening a file costs ten times what reading it costs.
        self._schedstat = _open(_SCHEDSTAT)
        self._memory = _open(_STATM)
        self._cpu_ns = self._delay_ns = self._slices = 0
        self._sampled = (0, 0, 0, 0, 0)
        self._sampled_ns = -_SAMPLE_NS
        self.read_ns = -READ_NS
        self.read(0)

    def read(self, now_ns: int) -> tuple[int, ...]:
        """CPU ns, run-queue ns and CPU switches of the thread; then the result of `_sample`.

        The numbers are from schedstat (Documentation/scheduler/sched-stats.rst); without schedstat only the CPU ns are
        known. `read` must not be called before `READ_NS` have passed since `read_ns`.
        """
        self.read_ns = now_ns
        raw = _fields(self._schedstat)
        if raw is None and self._schedstat is not None:
            self._schedstat = _open(_SCHEDSTAT)
            raw = _fields(self._schedstat)
        if raw is None:
            cpu_ns, delay_ns, slices = time.thread_time_ns(), NULL, NULL
            found = (cpu_ns - self._cpu_ns, NULL, NULL)
        else:
            cpu_ns, delay_ns, slices = int(raw[0]), int(raw[1]), int(raw[2])
            found = (cpu_ns - self._cpu_ns, delay_ns - self._delay_ns, slices - self._slices)
        self._cpu_ns, self._delay_ns, self._slices = cpu_ns, delay_ns, slices
        if now_ns - self._sampled_ns < _SAMPLE_NS:
            return found + _NOT_SAMPLED
        self._sampled_ns = now_ns
        return found + self._sample()

    def _sample(self) -> tuple[int, ...]:
        """CPU ns of the process, voluntary and involuntary switches, minor and major faults, each since the last
        sample; resident and device bytes."""
        thread = _resource.getrusage(_resource.RUSAGE_THREAD)
        whole = _resource.getrusage(_resource.RUSAGE_SELF)
        now = (time.process_time_ns(), thread.ru_nvcsw, thread.ru_nivcsw, whole.ru_minflt, whole.ru_majflt)
        last, self._sampled = self._sampled, now
        return (
            now[0] - last[0], now[1] - last[1], now[2] - last[2], now[3] - last[3], now[4] - last[4],
            self._resident(), device_bytes(sys.modules),
        )  # fmt: skip

    def _resident(self) -> int:
        raw = _fields(self._memory)
        if raw is None and self._memory is not None:
            self._memory = _open(_STATM)
            raw = _fields(self._memory)
        return NULL if raw is None else int(raw[1]) * _PAGE

    def close(self) -> None:
        """Close the files of /proc."""
        for file in (self._schedstat, self._memory):
            if file is not None:
                file.close()
        self._schedstat = self._memory = None


def device_bytes(modules: Mapping[str, object]) -> int:
    """Bytes that the framework has allocated on this process's device; `NULL` without a device.

    Only counters of the allocator are read: nothing is initialised and nothing synchronises.
    """
    torch = modules.get("torch")
    for name in ("npu", "cuda"):
        device = getattr(torch, name, None)
        try:
            if device is not None and device.is_initialized():
                return int(device.memory_allocated())
        except (RuntimeError, AttributeError, TypeError, ValueError):
            continue
    return NULL


def _open(path: str) -> OpenFile | None:
    try:
        file = OpenFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None
    raw = _fields(file)
    if raw is None or len(raw) < 2:
        file.close()
        return None
    return file


def _fields(file: OpenFile | None) -> list[bytes] | None:
    """The numbers in a file of /proc; None where the file is missing, or the job has closed it."""
    if file is None:
        return None
    try:
        return os.pread(file.number, 80, 0).split()
    except OSError:
        return None
