"""Loaded by every Python that `hermes run` starts: waits, for the price of nothing, until one of them loads torch.

Its folder stands first on PYTHONPATH. Nothing is imported before torch's optimizers are, and nothing is done before one
of them steps: launchers load torch and never step.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
_OPTIMIZERS = "torch.optim.optimizer"


class _Waiting:
    """Stands before the importers until torch's optimizers are asked for."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """None, and for the one module what Hermes' own finder makes of it."""
        if name != _OPTIMIZERS:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        try:
            return _begin(name, path, target)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            print(f"hermes: capture is off: {type(broken).__name__}: {broken}", file=sys.stderr)  # noqa: T201
        return None


def _begin(name: str, path: object, target: object) -> object:
    home = os.environ.get("HERMES_HOME", "")
    from importlib.machinery import PathFinder

    found = sys.modules.get("hermes") or PathFinder.find_spec("hermes")
    places = list(getattr(found, "__path__", None) or getattr(found, "submodule_search_locations", None) or [])
    ours = os.path.join(home, "hermes")  # noqa: PTH118
    if found is None:
        # The job's Python need not have Hermes installed; nothing else of where it is installed comes along.
        from types import ModuleType

        package = ModuleType("hermes")
        package.__path__ = [ours]
        sys.modules["hermes"] = package
    elif not any(os.path.exists(os.path.join(place, "inside", "__init__.py")) for place in places):  # noqa: PTH110, PTH118
        print("hermes: capture is off: the job has another package called hermes", file=sys.stderr)  # noqa: T201
        return None
    import hermes.inside

    before = list(sys.meta_path)
    hermes.inside.start()
    new = [finder for finder in sys.meta_path if finder not in before]
    return new[0].find_spec(name, path, target) if new else None  # type: ignore[arg-type]


def _chain() -> None:
    """Load the sitecustomize that this one hides, if there is one."""
    from importlib.machinery import PathFinder
    from types import ModuleType

    # Each that was here is left out: a job may be watched and recorded, and each would load the other for ever.
    gone = vars(sys).setdefault("_hermes_boots", [])
    gone.append(_HERE)
    others = [place for place in sys.path if os.path.abspath(place or ".") not in gone]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = ModuleType("sitecustomize")
        module.__spec__, module.__file__ = spec, spec.origin
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("HERMES_JOB") and os.environ.get("HERMES_CAPTURE") != "0":
    sys.meta_path.insert(0, _Waiting())  # type: ignore[arg-type]
_chain()
