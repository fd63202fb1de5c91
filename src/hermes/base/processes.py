"""What runs under a process, as Linux tells it, and how a child is started that ends with this process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class _Stat(NamedTuple):
    """State, parent and session of a process."""

    state: str
    parent: int
    session: int


_GONE = _Stat("X", 0, 0)
_owned: set[int] = set()


def begin(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own: an interrupt of the terminal is for this process, with which it ends.

    Raises `OSError` as `subprocess.Popen` does, which takes these options.
    """
    child = subprocess.Popen(command, start_new_session=True, **options)
    _owned.add(child.pid)
    return child


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have, children before grandchildren."""
    return _below(pid, _all())


def under(pid: int) -> list[int]:
    """Of those the ones in the session of the process, those that `begin` started, and everything below these."""
    table = _all()
    session = os.getsid(pid)
    ours = [one for one in _children(pid, table) if table[one].session == session or one in _owned]
    return [found for one in ours for found in (one, *_below(one, table))]


def lives(pid: int) -> bool:
    """Whether a process runs and holds files; one that nobody has waited for does not, once its last thread is gone."""
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
        # The name of the program, in brackets, may hold anything.
        told = Path("/proc", pid, "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return _Stat(told[0], int(told[1]), int(told[3]))
    except (OSError, ValueError, IndexError):
        return _GONE
