"""Starts Python isolated: the new interpreter imports no module from the working folder or from the input.

Python looks for modules first in its working folder, unless it gets `-I`. With `-I` it also ignores PYTHONPATH and
the user's site folder, so Hermes passes the module path of this process as arguments. Python 3.10 has no `-P`.
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

from hermes.base.processes import start_session

_START = (
    "import sys; module, end = sys.argv[1], 3 + int(sys.argv[2]); sys.path[:] = sys.argv[3:end]; del sys.argv[1:end]; "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def isolated(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of Hermes; the module search path of this process is passed as full paths."""
    path = [place for place in sys.path if Path(place).is_absolute()]
    return [sys.executable, "-I", "-c", _START, module, str(len(path)), *path, *arguments]


def for_tools(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for others' Python tools, which need PYTHONPATH, without entries that mean the current folder."""
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(place for place in path if Path(place).is_absolute())
    return {**{name: value for name, value in environment.items() if name != "PYTHONPATH"},
            **({"PYTHONPATH": kept} if kept else {})}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerProcess:
    """A running process of `hermes.base.worker_process`, with this end of the pipe to the process."""

    process: subprocess.Popen[bytes]
    pipe: Connection

    @classmethod
    def started(cls, environment: Mapping[str, str]) -> WorkerProcess:
        """Start a new interpreter as a worker: it shares nothing with this process and copies nothing from it."""
        here, there = Pipe()
        with there:
            process = start_session(
                isolated("hermes.base.worker_process", str(there.fileno())), env=dict(environment),
                pass_fds=[there.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return cls(process=process, pipe=here)
