"""Room in the heap: what is allocated next touches no new memory, all of it goes back, and little is taken."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.capture.headroom import Headroom, free_bytes

MB = 1 << 20
# In a process of its own, whose heap nothing else has used; blocks of 64 KiB come from the heap with every C library.
FAULTS = """
import ctypes, os, resource, sys
from hermes.capture.headroom import Headroom

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
room = Headroom()
taken = room.take({take})
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(256):
    ctypes.memset(libc.malloc(60_000), 1, 60_000)
print(taken, faults() - before)
room.give_back()
"""


def run(take: int) -> tuple[int, int]:
    out = subprocess.run(
        [sys.executable, "-c", FAULTS.format(take=take)], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    taken, faults = out.split()
    return int(taken), int(faults)


def test_what_is_allocated_next_is_old_memory() -> None:
    taken, faults = run(32 * MB)
    assert taken == 32 * MB - (64 << 10)
    none, many = run(0)
    assert none == 0
    # 256 blocks of 15 pages.
    assert many > 3_000
    assert faults < many / 10


def test_room_taken_twice_is_taken_once_and_goes_back_to_the_system() -> None:
    room = Headroom()
    start = resident()
    assert room.take(64 * MB) > 60 * MB
    assert room.take(64 * MB) == 0
    assert resident() > start + 50 * MB
    room.give_back()
    room.give_back()
    assert resident() < start + 30 * MB
    assert room.take(MB) > 0
    room.give_back()


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Path]:
    """A root with these files: what the system and the control group say."""

    def write(**files: str) -> Path:
        names = {
            "meminfo": "proc/meminfo", "most": "sys/fs/cgroup/memory.max", "now": "sys/fs/cgroup/memory.current",
            "old_most": "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "old_now": "sys/fs/cgroup/memory/memory.usage_in_bytes",
        }  # fmt: skip
        for name, text in files.items():
            path = tmp_path / names[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


INFO = "MemTotal:  9000 kB\nMemAvailable:    1000 kB\n"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 0),
        ({"meminfo": "MemTotal: 5 kB\n"}, 0),
        ({"meminfo": "MemAvailable: much\n"}, 0),
        ({"meminfo": INFO}, 1_024_000),
        ({"meminfo": INFO, "most": "max\n", "now": "5\n"}, 1_024_000),
        ({"meminfo": INFO, "most": "700\n", "now": "300\n"}, 400),
        ({"meminfo": INFO, "most": "700\n", "now": "900\n"}, 0),
        ({"meminfo": INFO, "old_most": "700\n", "old_now": "500\n"}, 200),
    ],
)
def test_free_memory_is_what_the_system_and_the_control_group_leave(
    machine: Callable[..., Path], files: dict[str, str], free: int
) -> None:
    assert free_bytes(machine(**files)) == free


def test_nothing_is_taken_where_nothing_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.capture.headroom.free_bytes", lambda: 100_000)
    assert Headroom().take() == 0
