"""The command `hermes`: it finds its own package, whatever PYTHONPATH or the working directory call so."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `hermes`. What PYTHONPATH holds comes last: on a cluster it may be what Hermes needs, and it hides nothing.

    Its empty and relative entries mean the working directory, which may be anybody's: they are left out.
    """
    own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is not loaded yet
    given = os.environ.get("PYTHONPATH", "")
    entries = {os.path.abspath(path): os.path.isabs(path) for path in given.split(os.pathsep)} if given else {}  # noqa: PTH100, PTH117
    entries.pop(own, None)
    late = [path for path in sys.path if entries.get(os.path.abspath(path))]  # noqa: PTH100
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in entries] + late  # noqa: PTH100
    try:
        from hermes.cli import command

        command()
    except KeyboardInterrupt:
        # So early that what ends a command is not there yet.
        os.write(2, b"hermes: interrupted\n")
        os._exit(130)
