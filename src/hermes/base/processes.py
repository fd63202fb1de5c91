"""What runs under a process, as Linux tells it."""

from __future__ import annotations

import contextlib
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have, children before grandchildren."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and (parent := _parent(folder)):
                children.setdefault(parent, []).append(int(folder.name))
    found: list[int] = []
    ahead = [pid]
    while ahead:
        own = children.get(ahead.pop(0), [])
        found += own
        ahead += own
    return found


def _parent(folder: Path) -> int:
    """The parent of a process; 0 when it is gone."""
    try:
        # The name of the program, in brackets, may hold anything.
        return int((folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
