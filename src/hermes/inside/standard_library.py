"""Imports standard-library modules that torch does not load, without clashing with a job's own file of the same name.

Python finds `resource.py` of a job before its own `resource`, and keeps one module for each name. A usual import would
run the job's own file of that name early, and give Hermes a useless module. Or, if the job extends its path later, the
job would get the standard module in place of its own, and fail.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(os.__file__))  # noqa: PTH100, PTH120 - as Python spells it


def standard(name: str) -> ModuleType:
    """The module `name` from Python's own folders; the job does not see this import. Raises `ImportError`."""
    if name in sys.builtin_module_names:
        return import_module(name)
    folders = [place for place in sys.path if os.path.abspath(place).startswith(_FOLDER) and not _added(place)]  # noqa: PTH100
    spec = PathFinder.find_spec(name, [_FOLDER, *folders])
    if spec is None or spec.loader is None:
        raise ImportError(f"this Python has no {name}", name=name)
    before = sys.modules.get(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # Until Python 3.9 such a module enters itself into `sys.modules`.
    sys.modules.pop(name, None)
    if before is not None:
        sys.modules[name] = before
    return module


def _added(place: str) -> bool:
    """Whether a folder holds packages that were installed beside Python."""
    return any(part in ("site-packages", "dist-packages") for part in Path(place).parts)
