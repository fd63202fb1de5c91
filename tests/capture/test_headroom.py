"""Room in the heap: what is allocated next touches no new memory, all of it goes back, and little is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.capture.headroom import Headroom, free_bytes

MB = 1 << 20
# Each in a process of its own: the heap of a long test run has room that something else left.
# Blocks of 64 KiB come from the heap with every C library.
FAULTS = """
import ctypes, json, resource
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
print(json.dumps([taken, faults() - before]))
room.give_back()
"""
TWICE = """
import json, resource
from pathlib import Path
from hermes.capture.headroom import Headroom

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
room = Headroom()
start = resident()
taken = [room.take({take}), room.take({take})]
grown = resident() - start
room.give_back()
room.give_back()
left = resident() - start
print(json.dumps([*taken, grown, left, room.take(1 << 20)]))
room.give_back()
"""


def run(code: str, take: int) -> list[int]:
    out = subprocess.run(
        [sys.executable, "-c", code.format(take=take)], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    numbers: list[int] = json.loads(out)
    return numbers


def test_what_is_allocated_next_is_old_memory() -> None:
    taken, faults = run(FAULTS, 32 * MB)
    assert taken == 32 * MB - (64 << 10)
    none, many = run(FAULTS, 0)
    assert none == 0
    # 256 blocks of 15 pages.
    assert many > 3_000
    assert faults < many / 10


def test_room_taken_twice_is_taken_once_and_goes_back_to_the_system() -> None:
    first, second, grown, left, again = run(TWICE, 64 * MB)
    assert first > 60 * MB
    assert second == 0
    assert grown > 50 * MB
    assert left < 30 * MB
    assert again > 0


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
