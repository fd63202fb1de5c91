"""Measures: what the tables of ranks tell, by family; each module declares its rows, and what symptoms may say."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_all() -> None:
    """Import every module of every family, so that all that is declared there is known."""
    for found in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(found.name)
