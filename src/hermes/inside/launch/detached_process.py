"""Starts processes that are not children of the job: in their own session, without the job's file descriptors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence


def start_detached(call: Callable[[], None], *, keep: Sequence[int] = (), stderr: bool = False) -> None:
    """Run `call` in a separate process, a grandchild whose parent has ended: the job never waits for this process.

    The process keeps only the descriptors in `keep`, and stderr if asked; other descriptors would keep pipes and locks
    of the job. Raises `OSError` when no process can be started.
    """
    child = os.fork()
    if child:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go({*keep, *([2] if stderr else [])})
            call()
    finally:
        os._exit(0)


def nowhere() -> int:
    """A descriptor that closes with this program: of /dev/null, or of a folder where /dev/null cannot be opened."""
    try:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # In some containers /dev/null is absent or not readable. No job may fail for that reason.
        return os.open("/", os.O_RDONLY | os.O_CLOEXEC)


def _let_go(keep: set[int]) -> None:
    nothing = nowhere()
    for standard in {0, 1, 2} - keep:
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib is not worth its import here
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))
