"""Imports names of a package only when a program first asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A module's `__getattr__`: it imports a name from the module that `homes` gives for it, then keeps the value.

    A name equal to the last part of its home stands for that module itself.
    """

    def found(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home)
        return module if home.rpartition(".")[2] == name and not hasattr(module, name) else getattr(module, name)

    return found
