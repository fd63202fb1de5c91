"""Measures one node: cores, memory and disk in this process; devices and collectives in a Python with torch."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from hermes.fleet.check.node_reading import Check, Reading

_SIDE = 1024
_MEMORY_BYTES = 256 << 20
_DISK_BYTES = 256 << 20
_BLOCK = 4 << 20
_TRIES = 5
_PATIENCE_S = 600.0
_LARGEST = 1 << 20
_MOST_READINGS = 512
Work = Callable[[], object]


def host(node: str, folder: Path, *, at_ns: int, scale: float = 1.0) -> list[Reading]:
    """Measure the node's own cores, memory, and disk of `folder`. `scale` makes all measurements smaller, for tests.

    The best of a few tries counts, because other programs can only slow a try down. Raises `OSError` for a folder that
    is not writable.
    """
    found = {Check.HOST_MATRIX: _matrix(int(_SIDE * scale)), Check.HOST_MEMORY: _memory(int(_MEMORY_BYTES * scale))}
    found[Check.DISK_WRITE], found[Check.DISK_READ] = _disk(folder, int(_DISK_BYTES * scale))
    made = (Reading(node=node, at_ns=at_ns, check=check, value=value) for check, value in found.items())
    return [one for one in made if one.sound]


def _best(work: Work, tries: int = _TRIES) -> float:
    """Seconds of the fastest try, after one try that warms up."""
    work()
    best = float("inf")
    for _ in range(tries):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def _matrix(side: int) -> float:
    left = np.random.default_rng(1).random((side, side), dtype=np.float32)
    out = np.empty_like(left)
    return 2.0 * side**3 / _best(lambda: np.matmul(left, left, out=out))


def _memory(size: int) -> float:
    source = np.ones(size // 8)
    target = np.empty_like(source)
    # The bytes are read and written.
    return 2.0 * source.nbytes / _best(lambda: np.copyto(target, source))


def _disk(folder: Path, size: int) -> tuple[float, float]:
    """Bytes a second written to the disk, and read back from the disk if the system can drop its page cache."""
    block = np.random.default_rng(2).bytes(min(_BLOCK, size))
    count = max(size // len(block), 1)
    # A file without a name leaves nothing behind, even after a crash.
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        descriptor = file.fileno()
        begin = time.perf_counter()
        for _ in range(count):
            os.write(descriptor, block)
        os.fsync(descriptor)
        written = time.perf_counter() - begin
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        begin = time.perf_counter()
        for place in range(count):
            os.pread(descriptor, len(block), place * len(block))
        read = time.perf_counter() - begin
    return count * len(block) / written, count * len(block) / read


def devices(node: str, python: str, *, at_ns: int, environment: Mapping[str, str]) -> list[Reading] | None:
    """Readings of the devices and of collectives from a Python with torch; None if that Python has no torch.

    The script's lines are numbers and short names; other output of the script is ignored.
    """
    script = Path(__file__).with_name("device_work.py")
    with tempfile.TemporaryDirectory(prefix="hermes-check-") as scratch, contextlib.suppress(OSError):
        # The script has an output file of its own, since torch may print on standard output.
        out = Path(scratch) / "said"
        try:
            done = subprocess.run(
                [python, "-I", str(script), str(out)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=_PATIENCE_S, check=False, cwd="/", env=dict(environment),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            pass
        else:
            if done.returncode == _NO_TORCH:
                return None
        with out.open("rb") as file:
            return list(_read(node, at_ns, file.read(_LARGEST).decode("utf-8", "replace")))
    return []


_NO_TORCH = 3


def _read(node: str, at_ns: int, text: str) -> Iterator[Reading]:
    for line in text.splitlines()[:_MOST_READINGS]:
        with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError, OverflowError):
            said = json.loads(line)
            made = Reading(
                node=node, at_ns=at_ns, check=Check(said["check"]), value=float(said["value"]),
                part=str(said.get("part", ""))[:100], chip=str(said.get("chip", ""))[:100],
            )  # fmt: skip
            if made.sound:
                yield made
