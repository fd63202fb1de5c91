"""Waits for torch or MindSpore in a Python process that `hermes precision` started, then starts the recorder.

Nothing else is imported before the framework.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

_FRAMEWORKS = ["torch", "mindspore"]
"""Frameworks whose import is waited for. A job that loads both is recorded in the framework whose optimizers step."""


class _Waiting:
    """An import finder that stands before Python's own finders until a framework is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """None; for a framework, the spec of the usual finder with a loader that calls back."""
        if name not in _FRAMEWORKS:
            return None
        try:
            return _calling_back(name, path)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            _off(broken)
        return None


def _calling_back(name: str, path: object) -> object:
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
    if spec is None or spec.loader is None:
        return spec
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: object) -> None:
        del loader.exec_module
        load(module)
        try:
            _record(name)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            _off(broken)

    loader.exec_module = exec_module
    return spec


def _off(broken: Exception) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"hermes: not recorded: {type(broken).__name__}: {broken}", file=sys.stderr)  # noqa: T201


def _record(framework: str) -> None:
    _FRAMEWORKS.remove(framework)
    for finder in [one for one in sys.meta_path if type(one).__name__ == "_Waiting"]:
        if not _FRAMEWORKS:
            sys.meta_path.remove(finder)
    home = os.environ.get("HERMES_HOME", "")
    from importlib.machinery import PathFinder
    from types import ModuleType

    found = sys.modules.get("hermes") or PathFinder.find_spec("hermes")
    if found is None:
        # The job's Python need not have Hermes installed; other packages from Hermes' folder are not made importable.
        package = ModuleType("hermes")
        package.__path__ = [os.path.join(home, "hermes")]  # noqa: PTH118
        sys.modules["hermes"] = package
    from hermes.inside.record import start

    start.boot(framework)
    if os.environ.get("HERMES_SNAPSHOT"):
        from hermes.inside import snapshot

        snapshot.boot(framework)


def begin() -> None:
    """Install the import finder that waits until torch or MindSpore is imported."""
    sys.meta_path.insert(0, _Waiting())  # type: ignore[arg-type]
