"""The rules, one file each in the folder of its family: a module named by its code and fault holds one rule."""

import importlib
import pkgutil

from hermes.profiles.rules.rule import Rule


def _rules() -> tuple[Rule, ...]:
    families = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.ispkg)
    found = []
    for family in families:
        package = importlib.import_module(f"{__name__}.{family}")
        for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
            module = importlib.import_module(f"{package.__name__}.{name}")
            (rule,) = (value for value in vars(module).values() if isinstance(value, Rule))
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.code))


ALL: tuple[Rule, ...] = _rules()
"""Every rule, in the order of their codes."""

__all__ = ["ALL"]
