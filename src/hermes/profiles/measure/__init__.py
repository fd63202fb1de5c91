"""Measures of a rank's tables, one folder per family. Each module declares its rows and the readings of symptoms."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_all() -> None:
    """Import every module of every family, which registers all their declarations."""
    for found in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(found.name)
