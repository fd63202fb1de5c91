"""Describes the machine of a measurement: processor, memory, versions, day."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("hermes-perf", "duckdb", "polars", "numpy", "pyarrow")


def about() -> dict[str, str]:
    """The facts on the machine by name."""
    facts = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{len(os.sched_getaffinity(0))} cores of {_model()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "system": f"Linux {platform.release().partition('-')[0]}, {platform.machine()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }
    return facts | {package: _version(package) for package in PACKAGES}


def _model() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def sentence(facts: dict[str, str]) -> str:
    """The facts as two sentences for a page."""
    packages = ", ".join(f"{package} {facts[package]}" for package in PACKAGES)
    where = f"{facts['processor']}, {facts['memory']}, {facts['system']}, load {facts['load']}"
    return f"Measured {facts['date']} on {where}. Python {facts['python']}, {packages}."
