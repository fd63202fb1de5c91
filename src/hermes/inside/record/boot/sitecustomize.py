"""Loaded by every Python that `hermes precision` starts, of any version: loads the module that waits for the framework.

This file's folder stands first on PYTHONPATH. The file must also parse in Python 2.7: a job may start any Python.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_OLDEST = (3, 8)


def _begin():
    # type: () -> None
    if sys.version_info >= _OLDEST:
        import hermes_waits_to_record  # type: ignore[import-not-found]

        hermes_waits_to_record.begin()
    else:
        import atexit

        atexit.register(_too_old)


def _too_old():
    # type: () -> None
    if "torch" in sys.modules or "mindspore" in sys.modules:
        text = "not recorded: Python %d.%d is too old, Hermes needs 3.8 or newer" % sys.version_info[:2]
        sys.stderr.write("hermes: %s\n" % text)


def _chain():
    # type: () -> None
    """Load the job's own sitecustomize, which this file hides, if there is one."""
    # Skip every sitecustomize of Hermes: a job may be watched and recorded, and the two files would load each other for
    # ever.
    gone = vars(sys).setdefault("_hermes_boots", [])
    gone.append(_HERE)
    others = [place for place in sys.path if os.path.abspath(place or ".") not in gone]
    if sys.version_info >= (3, 4):
        from importlib.machinery import PathFinder
        from types import ModuleType

        spec = PathFinder.find_spec("sitecustomize", others)
        if spec is not None and spec.loader is not None:
            module = ModuleType("sitecustomize")
            module.__spec__, module.__file__ = spec, spec.origin
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)
    else:
        import imp

        try:
            found = imp.find_module("sitecustomize", others)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)


if os.environ.get("HERMES_RECORD") or os.environ.get("HERMES_SNAPSHOT"):
    _begin()
_chain()
