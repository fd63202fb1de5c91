"""Reads the settings of a process that a trace does not hold: cores, threads, the processor's short number types.

The module loads nothing and asks the system once, when a capture begins.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_CPUINFO = Path("/proc/cpuinfo")
_LONGEST = 65_536
# Processor flag for instructions that multiply bfloat16, the fastest instructions first.
_SHORT = {"amx_bf16": "amx", "avx512_bf16": "avx512", "bf16": "arm"}
_TOLD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "KMP_AFFINITY", "LD_PRELOAD")


def surroundings(modules: Mapping[str, Any]) -> dict[str, str]:
    """Settings by name; `modules` are the loaded modules. An unknown setting is absent."""
    return dict(_known(modules))


def _known(modules: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if hasattr(os, "sched_getaffinity"):
        yield "cpu.cores", str(len(os.sched_getaffinity(0)))
    flags = _flags()
    if flags is not None:
        yield "cpu.bf16", next((kind for flag, kind in _SHORT.items() if flag in flags), "none")
    torch = modules.get("torch")
    if torch is not None:
        with contextlib.suppress(AttributeError, RuntimeError):
            yield "torch.num_threads", str(torch.get_num_threads())
        with contextlib.suppress(AttributeError, RuntimeError):
            yield "torch.anomaly_enabled", str(torch.is_anomaly_enabled())
    yield from ((name, os.environ[name]) for name in _TOLD if name in os.environ)


def _flags() -> frozenset[str] | None:
    """The flags of the first processor: `flags` on x86-64, `Features` on Arm (proc(5))."""
    try:
        with _CPUINFO.open(encoding="ascii", errors="replace") as file:
            text = file.read(_LONGEST)
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return None
