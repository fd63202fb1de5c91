"""Checks whether the machine's memory suffices for the data that a profiler holds once it stops; loads no module."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

_PART = 0.75
"""Largest share of the free memory that a capture takes: the job goes on beside the capture."""
_AMPLE = 4
"""How many times a capture must fit in the memory that was free at its begin, to need no look at the memory again."""
_UNLIMITED = 1 << 60
"""From this size in bytes on, a limit of a cgroup means no limit."""
_CGROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self")


def suffices(needed_bytes: int, free_bytes: int | None) -> bool:
    """Whether a capture may take `needed_bytes` of memory; True where the free memory is unknown."""
    return free_bytes is None or needed_bytes <= _PART * free_bytes


def fits_still(needed_bytes: int, free_before: int | None, free_now: Callable[[], int | None]) -> bool:
    """Whether a capture under way may take `needed_bytes`; `free_before` was free at its begin.

    To ask what is free now takes a millisecond of the captured step on a busy machine, so a small capture does not ask.
    """
    return suffices(_AMPLE * needed_bytes, free_before) or suffices(needed_bytes, free_now())


def free_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes of memory that this process may still take: the least of the machine's and its cgroups'; None if
    unknown."""
    return min((*_of_machine(meminfo), *_of_cgroups()), default=None)


def resident_bytes() -> int:
    """Bytes of memory that this process holds now; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((_OWN / "statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _of_machine(meminfo: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in meminfo.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _of_cgroups() -> Iterator[int]:
    """Free bytes below each memory limit around this process: cgroup v2, and v1 as seen inside a container.

    Cached file pages that were not used of late count as free, as in Kubernetes' working set.
    """
    for folder in _folders():
        for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with contextlib.suppress(OSError, ValueError):
                most = int((folder / limit).read_text("ascii"))
                if most < _UNLIMITED:
                    yield max(0, most - int((folder / used).read_text("ascii")) + _inactive_files(folder))


def _inactive_files(folder: Path) -> int:
    lines = (folder / "memory.stat").read_text("ascii").splitlines()
    told = dict(line.split(" ", 1) for line in lines)
    return int(told.get("total_inactive_file", told.get("inactive_file", "0")))


def _folders() -> Iterator[Path]:
    yield from (_CGROUPS, _CGROUPS / "memory")
    with contextlib.suppress(OSError):
        for line in (_OWN / "cgroup").read_text("utf-8", "replace").splitlines():
            _, controllers, path = line.split(":", 2)
            root = _CGROUPS / "memory" if "memory" in controllers.split(",") else _CGROUPS
            if controllers and root == _CGROUPS:
                continue
            own = root / path.lstrip("/")
            if ".." not in own.parts:
                yield from (own, *(one for one in own.parents if root in one.parents))
