"""Waits, at almost no cost, until a Python process that `hermes run` started loads torch.

Nothing is imported before torch's optimizers are imported, and nothing is done before an optimizer steps: launchers
load torch and never step.
"""

from __future__ import annotations

import contextlib
import os
import sys

_OPTIMIZERS = "torch.optim.optimizer"


class _Waiting:
    """An import finder that stands before Python's own finders until torch's optimizers are imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """None; for the module of torch's optimizers, the result of Hermes' own finder."""
        if name != _OPTIMIZERS:
            return None
        try:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            return _watch(name, path, target)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            _off(f"{type(broken).__name__}: {broken}")
        return None


def _watch(name: str, path: object, target: object) -> object:
    home = os.environ.get("HERMES_HOME", "")
    from importlib.machinery import PathFinder

    found = sys.modules.get("hermes") or PathFinder.find_spec("hermes")
    places = list(getattr(found, "__path__", None) or getattr(found, "submodule_search_locations", None) or [])
    ours = os.path.join(home, "hermes")  # noqa: PTH118
    if found is None:
        # The job's Python need not have Hermes installed; other packages from Hermes' folder are not made importable.
        from types import ModuleType

        package = ModuleType("hermes")
        package.__path__ = [ours]
        sys.modules["hermes"] = package
    elif not any(os.path.exists(os.path.join(place, "inside", "__init__.py")) for place in places):  # noqa: PTH110, PTH118
        _off("the job has another package called hermes")
        return None
    import hermes.inside

    before = list(sys.meta_path)
    hermes.inside.start()
    new = [finder for finder in sys.meta_path if finder not in before]
    return new[0].find_spec(name, path, target) if new else None  # type: ignore[arg-type]


def _off(why: str) -> None:
    """Say that `hermes.inside` cannot be used, in the words that `hermes.inside` uses."""
    text = f"capture is off: {why}"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(f"hermes: {text}", file=sys.stderr)  # noqa: T201
    with contextlib.suppress(OSError), open(os.path.join(os.environ["HERMES_JOB"], "capture-off.txt"), "a") as file:  # noqa: PTH118, PTH123
        file.write(f"{text}\n")


def begin() -> None:
    """Install the import finder that waits until torch's optimizers are imported."""
    sys.meta_path.insert(0, _Waiting())  # type: ignore[arg-type]
