"""The list of all rules: each rule is a module, or a folder with one module for each fault, in its family's folder.

The docstring of a rule's module or folder is the page of the rule.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from hermes.profiles.rules.rule import Finder, Rule


def modules_of(rule: ModuleType) -> tuple[ModuleType, ...]:
    """The modules of a rule: the rule's own module, and the modules in its folder in the order of their names."""
    names = sorted(found.name for found in pkgutil.iter_modules(getattr(rule, "__path__", ())))
    return (rule, *(importlib.import_module(f"{rule.__name__}.{name}") for name in names))


def _modules() -> Iterator[ModuleType]:
    families = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg)
    for family in families:
        package = importlib.import_module(f"{__name__}.{family}")
        for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
            if not name.startswith("_"):
                yield importlib.import_module(f"{package.__name__}.{name}")


def _rule(module: ModuleType) -> Rule:
    every = {module: vars(module).values() for module in modules_of(module)}
    finders = [one for own in every.values() for one in own if isinstance(one, Finder)]
    (code,) = {finder.code for finder in finders}
    lab = module.__name__.startswith(f"{__name__}.lab.")
    return Rule(code=code, page=module.__doc__ or "", finders=tuple(finders), lab=lab)


MODULES: tuple[ModuleType, ...] = tuple(_modules())
"""The module or the folder of each rule."""

ALL: tuple[Rule, ...] = tuple(sorted(map(_rule, MODULES), key=lambda rule: rule.code))
"""Every rule, in the order of the codes."""

__all__ = ["ALL", "MODULES", "modules_of"]
