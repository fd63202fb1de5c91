"""The rules, one file each: a module whose name does not begin with an underscore holds one as `RULE`."""

import importlib
import pkgutil

from hermes.diagnose.rule import Rule

_NAMES = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
ALL: tuple[Rule, ...] = tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in _NAMES)
"""Every rule, in the order of their codes."""

__all__ = ["ALL"]
