"""Identifies processes by number and start time: a process number alone is used again."""

from __future__ import annotations

import os

_START_TIME = 21


def start_time(pid: int) -> int | None:
    """The start time of a process, in clock ticks since boot; None when there is no such process.

    The start time is field 22 of `/proc/PID/stat` (proc(5)); the name before it may hold spaces and brackets. A zombie
    counts as ended.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib is not worth its import here
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[_START_TIME - 2])
    except (OSError, ValueError, IndexError):
        return None


def alive(pid: int, started: int) -> bool:
    """Whether the process with this number and start time still runs."""
    return pid > 0 and start_time(pid) == started


def own_identity() -> tuple[int, int]:
    """Number and start time of this process."""
    pid = os.getpid()
    return pid, start_time(pid) or 0


def pid_namespace() -> int:
    """The pid namespace of this process, 0 without one: process numbers are comparable only within one namespace."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - pathlib is not worth its import here
    except OSError:
        return 0
