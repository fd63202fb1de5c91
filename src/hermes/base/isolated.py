"""Starts Python isolated: nothing that lies in the folder of a command, or in its input, is imported by what it starts.

Python looks for modules first where it was started, unless it is told `-I`. Then it heeds no PYTHONPATH either, and
knows no folder beside its own: so ours get the path of this process by their arguments. Python 3.10 has no `-P`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from hermes.base.processes import begin

_START = (
    "import sys; module, end = sys.argv[1], 3 + int(sys.argv[2]); sys.path[:] = sys.argv[3:end]; del sys.argv[1:end]; "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def isolated(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours; it finds the modules that this process finds, by their full paths."""
    path = [place for place in sys.path if Path(place).is_absolute()]
    return [sys.executable, "-I", "-c", _START, module, str(len(path)), *path, *arguments]


def for_tools(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for others' Python tools, which need its PYTHONPATH: without what means the current folder."""
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(place for place in path if Path(place).is_absolute())
    return {**{name: value for name, value in environment.items() if name != "PYTHONPATH"},
            **({"PYTHONPATH": kept} if kept else {})}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process of `hermes.base.worker`, and the end of the pipe to it."""

    process: subprocess.Popen[bytes]
    pipe: Connection

    @classmethod
    def started(cls, environment: Mapping[str, str]) -> Worker:
        """A new interpreter: nothing of this process is shared with it or copied into it."""
        here, there = Pipe()
        with there:
            process = begin(
                isolated("hermes.base.worker", str(there.fileno())), env=dict(environment), pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return cls(process=process, pipe=here)
