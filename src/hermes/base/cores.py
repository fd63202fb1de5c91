"""How much of this machine a process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """How many threads a library may start here: what `POLARS_MAX_THREADS` says, as polars heeds it, or the cores."""
    said = os.environ.get("POLARS_MAX_THREADS", "")
    return max(1, min(cores(), int(said))) if said.isdecimal() else cores()
