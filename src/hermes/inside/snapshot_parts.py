"""Collects the parts of a snapshot that do not depend on a framework: environment, packages and command of the process.

The file is a zip of strict JSON. The zip is rewritten as a whole whenever new data was seen that is not available
later.
"""

from __future__ import annotations

import json
import os
import platform
import random
import sys
import zipfile
from typing import Any

from hermes.inside.error_guard import Border
from hermes.inside.record.layout import SNAPSHOT
from hermes.inside.record.stats import state_print

BATCHES = 2
"""Number of calls of a model whose batches are recorded."""
_MOST_BATCHES = 8
_MOST_CALLS = 1000
"""Calls after which an optimizer is no longer waited for: there is none, or it runs where it is not seen."""
_MOST_FAILED = 100
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH")
_CONFIGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".sh", ".py")
_LONGEST_CONFIG = 200_000


class Taking:
    """The snapshot of one process: the setup that was seen so far."""

    def __init__(self, out: str, rank: int) -> None:
        self._out = out if rank == 0 else f"{os.path.splitext(out)[0]}.rank{rank}.zip"  # noqa: PTH122
        self._calls = 0
        self.border = Border(self._failed)
        self.found: dict[str, Any] = {
            "format": SNAPSHOT, "rank": rank, "environment": _environment(), "packages": _packages(),
            "command": _command(), "batches": [], "parameters": {}, "loaders": [], "optimizers": [],
        }  # fmt: skip

    def wants(self, model: str) -> bool:
        """Whether to record the batch of this call of a model, a loss or another outermost module."""
        self._calls += 1
        seen = [one["model"] for one in self.found["batches"]]
        return len(seen) < _MOST_BATCHES and seen.count(model) < BATCHES

    @property
    def complete(self) -> bool:
        """Whether the model that was called first was called often enough, and an optimizer has stepped."""
        batches = self.found["batches"]
        again = sum(one["model"] == batches[0]["model"] for one in batches) >= BATCHES if batches else False
        return (again and bool(self.found["optimizers"])) or self._calls >= _MOST_CALLS

    def _failed(self, broken: Exception) -> None:
        """Note an error in the snapshot, which goes on."""
        failed = self.found.setdefault("failed", [])
        if len(failed) < _MOST_FAILED:
            failed.append(f"{type(broken).__name__}: {broken}"[:300])

    def write(self) -> None:
        """Write the snapshot file, in place of an older file."""
        fresh = f"{self._out}.{os.getpid()}.part"
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("snapshot.json", json.dumps(self.found, allow_nan=False, default=str))
        os.replace(fresh, self._out)  # noqa: PTH105


def generators() -> dict[str, Any]:
    """Fingerprints of the states of Python's own generator and of numpy's."""
    found: dict[str, Any] = {"python": state_print(repr(random.getstate()).encode())}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        name, keys, *rest = numpy.random.get_state()
        found["numpy"] = state_print(keys.tobytes() + repr((name, rest)).encode())
    return found


def plainly(value: Any) -> Any:
    """The value as JSON; unknown types as text."""
    if isinstance(value, float) and value != value:
        return "nan"
    if isinstance(value, (int, float, str, bool)) or value is None:
        return value
    return [plainly(one) for one in value] if isinstance(value, (list, tuple)) else str(value)[:200]


def _environment() -> dict[str, str]:
    return {
        name: "(hidden)" if any(mark in name.upper() for mark in _SECRET) else value[:2000]
        for name, value in sorted(os.environ.items())
    }


def _packages() -> dict[str, str]:
    from importlib import metadata

    found = {"python": platform.python_version()}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-"), one.version)
    return found


def _command() -> dict[str, Any]:
    configs = {}
    for one in sys.argv[1:]:
        path = one.rpartition("=")[2]
        # pathlib is not loaded yet
        small = os.path.isfile(path) and os.path.getsize(path) < _LONGEST_CONFIG  # noqa: PTH113, PTH202
        if path.endswith(_CONFIGS) and small:
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                configs[os.path.basename(path)] = file.read()  # noqa: PTH119
    return {"arguments": [str(one)[:1000] for one in sys.argv[:500]], "configurations": configs}
