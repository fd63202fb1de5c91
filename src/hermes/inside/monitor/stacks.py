"""Lets a watcher ask a stuck process where it stands: a signal makes the interpreter write the stacks of its threads.

Python's own handler does it in C, without the interpreter lock, so it works while a call hangs.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def offer(folder: Path, rank: int) -> dict[str, object]:
    """Have a free real-time signal write stacks to a file in `folder`; what a watcher must know, or nothing."""
    number = _free()
    if number is None:
        return {}
    try:
        import faulthandler

        name = f"stacks-rank{rank}.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(folder / name, flags, 0o600)
        # The descriptor stays open for as long as the process lives: the handler writes to it.
        faulthandler.register(number, file=descriptor, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError, AttributeError, ImportError):
        return {}
    return {"stacks": {"signal": number, "file": name}}


def _free() -> int | None:
    """A real-time signal that nobody handles; None where there are none, or none is free."""
    first, last = getattr(signal, "SIGRTMIN", None), getattr(signal, "SIGRTMAX", None)
    if first is None or last is None:
        return None
    for number in range(first + 8, last - 8):
        if signal.getsignal(number) == signal.SIG_DFL:
            return int(number)
    return None
