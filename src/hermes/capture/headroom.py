"""Room in the heap for what a profiler keeps, so that the steps it records touch no more new memory than others.

Each record of a profiler is a few small blocks that stay until its end. They land in the gaps beside the tensors that a
step frees; before its release 2.38 the GNU C library then finds none of these tensors' places large enough for the next
step's, and takes new memory for every tensor in every step, whose first touch costs time. Measured in
docs/evidence/profiler-cost.md: steps of 8 ms take 25 ms. Here memory is taken and touched before, and given back to the
allocator below one block that stays, so that it keeps it: the next steps find room there. Where another allocator
serves the process, this is without effect.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

MOST = 256 << 20
"""Bytes at most, for some steps."""
_PART = 16
"""At most this part of the memory that is free."""
_BLOCK = 64 << 10
"""The allocator takes blocks of this size from the heap, and asks the system for none of them apart."""


class Headroom:
    """So much room in the heap of this process, from `take` until `give_back`."""

    def __init__(self) -> None:
        self._last = 0
        self._libc: ctypes.CDLL | None = None

    def take(self, most: int = MOST) -> int:
        """Take room for at most so many bytes; returns how many. A fault of 4,096 bytes costs 0.3 to 2 us."""
        size = min(most, free_bytes() // _PART) // _BLOCK * _BLOCK
        if size <= _BLOCK or self._last:
            return 0
        self._libc = libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
        libc.free.restype, libc.free.argtypes = None, (ctypes.c_void_p,)
        blocks = [block for _ in range(size // _BLOCK) if (block := libc.malloc(_BLOCK))]
        for block in blocks:
            ctypes.memset(block, 0, _BLOCK)
        # The last lies above the others: what is free at the very top goes back to the system.
        self._last = blocks.pop() if blocks else 0
        for block in blocks:
            libc.free(block)
        return len(blocks) * _BLOCK

    def give_back(self) -> None:
        """Let the allocator do with it as it does."""
        if self._libc is not None and self._last:
            self._libc.free(self._last)
            self._last = 0


def free_bytes(root: Path = Path("/")) -> int:
    """Memory that the system, and the control group of this process, have to give; 0 where neither tells."""
    return min(_limits(root), default=0)


def _limits(root: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text("ascii").splitlines()
        yield int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
    for limit, used in (
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        # `max` is no number: no limit.
        with contextlib.suppress(OSError, ValueError):
            yield max(0, int((root / limit).read_text("ascii")) - int((root / used).read_text("ascii")))
