"""Names of a package that are imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A `__getattr__` for a module: a name is looked up in the module of `homes` that holds it, then kept.

    A name that ends its home stands for that module itself.
    """

    def found(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home)
        return module if home.rpartition(".")[2] == name and not hasattr(module, name) else getattr(module, name)

    return found
