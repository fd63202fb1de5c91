"""What the system counts for a thread and a process, for a microsecond each; what it does not count is `NULL`."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping

from hermes.live.record import NULL

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE_NS = 1_000_000_000


class Probes:
    """Counters of the thread that made this and of its process; each call of `read` gives what came since the last."""

    __slots__ = ("_cpu_ns", "_delay_ns", "_memory", "_process_ns", "_rss", "_sampled_ns", "_schedstat", "_switches")

    def __init__(self) -> None:
        # Files of /proc are kept open: opening one costs ten times what reading it does.
        self._schedstat = _open("/proc/thread-self/schedstat")
        self._memory = _open("/proc/self/statm")
        self._sampled_ns = 0
        self._rss = (NULL, NULL)
        self._cpu_ns = self._delay_ns = self._process_ns = 0
        self._switches = (0, 0, 0, 0)
        self.read(0)

    def read(self, now_ns: int) -> tuple[int, int, int, int, int, int, int, int, int]:
        """CPU and run-queue ns of the thread, CPU ns of the process, voluntary and involuntary switches, minor and
        major faults, resident and device bytes."""
        cpu_ns, delay_ns = self._scheduler()
        process_ns = time.process_time_ns()
        thread = resource.getrusage(resource.RUSAGE_THREAD)
        whole = resource.getrusage(resource.RUSAGE_SELF)
        switches = (thread.ru_nvcsw, thread.ru_nivcsw, whole.ru_minflt, whole.ru_majflt)
        before = self._switches
        if now_ns - self._sampled_ns >= _SAMPLE_NS:
            self._sampled_ns = now_ns
            self._rss = (self._resident(), device_bytes(sys.modules))
        found = (
            cpu_ns - self._cpu_ns,
            delay_ns - self._delay_ns if delay_ns != NULL else NULL,
            process_ns - self._process_ns,
            switches[0] - before[0],
            switches[1] - before[1],
            switches[2] - before[2],
            switches[3] - before[3],
            *self._rss,
        )
        self._cpu_ns, self._delay_ns, self._process_ns, self._switches = cpu_ns, delay_ns, process_ns, switches
        return found

    def _scheduler(self) -> tuple[int, int]:
        """Nanoseconds on a CPU and in the run queue (schedstats, Documentation/scheduler/sched-stats.rst)."""
        if self._schedstat >= 0:
            cpu, delay, _ = os.pread(self._schedstat, 80, 0).split()
            return int(cpu), int(delay)
        return time.thread_time_ns(), NULL

    def _resident(self) -> int:
        if self._memory < 0:
            return NULL
        return int(os.pread(self._memory, 80, 0).split()[1]) * _PAGE

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._schedstat, self._memory):
            if descriptor >= 0:
                os.close(descriptor)
        self._schedstat = self._memory = -1


def device_bytes(modules: Mapping[str, object]) -> int:
    """Bytes that the framework has allocated on this process's device; `NULL` where it uses none.

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


def _open(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.pread(descriptor, 80, 0).split()[1]
    except (OSError, IndexError):
        return -1
    return descriptor
