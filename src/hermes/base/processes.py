"""Lists the processes below a process, from Linux' `/proc`, and starts child processes that end with this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import asyncio


class _Stat(NamedTuple):
    """The state, parent and session of a process."""

    state: str
    parent: int
    session: int


_GONE = _Stat("X", 0, 0)
_owned: set[int] = set()


def start_session(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child in its own session: Ctrl-C reaches only this process, and the child ends with it.

    The options are those of `subprocess.Popen`, whose `OSError` is raised too.
    """
    child = subprocess.Popen(command, start_new_session=True, **options)
    _owned.add(child.pid)
    return child


async def begin_beside(command: Sequence[str], **options: Any) -> asyncio.subprocess.Process:
    """Start a child like `start_session`, in asyncio, with the options of `asyncio.create_subprocess_exec`."""
    import asyncio

    child = await asyncio.create_subprocess_exec(*command, start_new_session=True, **options)
    _owned.add(child.pid)
    return child


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and their own child processes: children before grandchildren."""
    return _below(pid, _all())


def processes_below(pid: int) -> list[int]:
    """The descendants of a process in its session, those that `start_session` started, and all processes below both."""
    table = _all()
    session = os.getsid(pid)
    ours = [one for one in _children(pid, table) if table[one].session == session or one in _owned]
    return [found for one in ours for found in (one, *_below(one, table))]


def lives(pid: int) -> bool:
    """Whether a process runs and holds files; a zombie does not, once its last thread is gone."""
    if _stat(str(pid)).state not in ("Z", "X"):
        return True
    with contextlib.suppress(OSError):
        return len([*Path(f"/proc/{pid}/task").iterdir()]) > 1
    return False


def _below(pid: int, table: dict[int, _Stat]) -> list[int]:
    found: list[int] = []
    ahead = [pid]
    while ahead:
        own = _children(ahead.pop(0), table)
        found += own
        ahead += own
    return found


def _children(pid: int, table: dict[int, _Stat]) -> list[int]:
    return [one for one, state in table.items() if state.parent == pid]


def _all() -> dict[int, _Stat]:
    with contextlib.suppress(OSError):
        names = [folder.name for folder in Path("/proc").iterdir()]
        return {int(name): _stat(name) for name in names if name.isdecimal()}
    return {}


def _stat(pid: str) -> _Stat:
    try:
        # The program's name, in brackets, may hold any character.
        told = Path("/proc", pid, "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return _Stat(told[0], int(told[1]), int(told[3]))
    except (OSError, ValueError, IndexError):
        return _GONE
