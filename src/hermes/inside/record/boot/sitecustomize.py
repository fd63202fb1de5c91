"""Loaded by every Python of a job that is recorded: waits for torch or MindSpore, then starts the recorder.

Its folder stands first on PYTHONPATH. Nothing else is imported before that.
"""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
_FRAMEWORKS = ["torch", "mindspore"]
"""Those that are waited for. A job that loads both is recorded where its optimizers step."""


class _Waiting:
    """Stands before the importers until the framework is asked for."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """None, and for the framework the module's own finder with a loader that calls back."""
        if name not in _FRAMEWORKS:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)  # type: ignore[arg-type]
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, name)  # type: ignore[assignment]
        return spec


class _Loader:
    """Loads by the loader that it stands for, then starts what was asked for."""

    def __init__(self, loader: object, name: str) -> None:
        self._loader, self._name = loader, name

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: object) -> object:
        """As the loader that it stands for."""
        return self._loader.create_module(spec)  # type: ignore[attr-defined]

    def exec_module(self, module: object) -> None:
        """Load the framework, then begin."""
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader  # type: ignore[attr-defined]
        self._loader.exec_module(module)  # type: ignore[attr-defined]
        try:
            _begin(self._name)
        except Exception as broken:  # noqa: BLE001 - the job must not see it
            print(f"hermes: not recorded: {type(broken).__name__}: {broken}", file=sys.stderr)  # noqa: T201


def _begin(framework: str) -> None:
    _FRAMEWORKS.remove(framework)
    for finder in [one for one in sys.meta_path if type(one).__name__ == "_Waiting"]:
        if not _FRAMEWORKS:
            sys.meta_path.remove(finder)
    home = os.environ.get("HERMES_HOME", "")
    from importlib.machinery import PathFinder
    from types import ModuleType

    found = sys.modules.get("hermes") or PathFinder.find_spec("hermes")
    if found is None:
        # The job's Python need not have Hermes installed; nothing else of where it is installed comes along.
        package = ModuleType("hermes")
        package.__path__ = [os.path.join(home, "hermes")]  # noqa: PTH118
        sys.modules["hermes"] = package
    from hermes.inside.record import start

    start.boot(framework)
    if os.environ.get("HERMES_SNAPSHOT"):
        from hermes.inside import snapshot

        snapshot.boot(framework)


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


if os.environ.get("HERMES_RECORD") or os.environ.get("HERMES_SNAPSHOT"):
    sys.meta_path.insert(0, _Waiting())  # type: ignore[arg-type]
_chain()
