"""Processes that are no children of the job: in a session of their own, with none of its descriptors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence


def apart(call: Callable[[], None], *, keep: Sequence[int] = (), stderr: bool = False) -> None:
    """Call that in a process of its own, a grandchild whose parent is gone: the job never waits for it.

    Of the descriptors it has these, and stderr if asked; the others would keep pipes and locks of the job. Raises
    `OSError` when there can be no process.
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
    """A descriptor that ends with this program: of /dev/null, or of a folder where that cannot be opened."""
    try:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # In some containers it is absent, or somebody has taken its permissions. No job fails for that.
        return os.open("/", os.O_RDONLY | os.O_CLOEXEC)


def _let_go(keep: set[int]) -> None:
    nothing = nowhere()
    for standard in {0, 1, 2} - keep:
        os.dup2(nothing, standard)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib is not worth its import here
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))
