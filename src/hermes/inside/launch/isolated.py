"""Builds commands that start Hermes' own Python beside a job, without modules of the working directory."""

from __future__ import annotations

import os
import sys

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
"""The folder that contains the package `hermes`."""
_BOOT = """
import os, sys
home, called = sys.argv[1:3]
del sys.argv[1:3]
sites = [at for at, path in enumerate(sys.path) if path.endswith(("site-packages", "dist-packages"))]
sys.path.insert(sites[0] if sites else len(sys.path), home)
sys.path += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(path)]
module, _, function = called.partition(":")
__import__(module)
getattr(sys.modules[module], function)()
"""
# Python 3.10 has -I and no -P. PYTHONPATH comes last: on a cluster it may hold packages that Hermes needs, and hides
# nothing.


def isolated(called: str, *words: str, libraries: bool = True) -> list[str]:
    """A command that calls `MODULE:FUNCTION` of Hermes with `words` behind `sys.argv[0]`.

    Without `libraries`, only the standard library and Hermes can be imported, which starts sooner.
    """
    return [sys.executable, "-I", *([] if libraries else ["-S"]), "-c", _BOOT, HOME, called, *words]
