"""Lets a watcher ask a stuck process for its stacks: a signal makes the interpreter write the stacks of all threads.

Python's own handler writes them in C, without the interpreter lock, so it works while a call hangs.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from hermes.inside.wire.open_files import OpenFile


class StackSignal:
    """A free real-time signal that writes stacks to a file in `folder`; `told` is what a watcher must know, or empty.

    The handler always writes to the same descriptor; `look` makes sure that the descriptor is still Hermes' file.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        self.told: dict[str, object] = {}
        self._file: OpenFile | None = None
        self._signal, self._number = _free(), -1
        if self._signal is None:
            return
        name = f"stacks-rank{rank}.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = OpenFile(
                os.open(folder / name, flags, 0o600), lambda: os.open(folder / name, flags & ~os.O_CREAT)
            )
            self.look()
        except (OSError, ValueError, RuntimeError, AttributeError, ImportError):
            return
        # The file stays open for as long as the process lives.
        self.told = {"stacks": {"signal": self._signal, "file": name}}

    def look(self) -> None:
        """Give the handler another file where the job has closed the first one. The handler stays, since without it the
        signal would end the process."""
        if self._file is None or self._signal is None:
            return
        try:
            number = self._file.number
        except OSError:
            # Do not try again: the stacks then go nowhere.
            self._file = OpenFile(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
            number = self._file.number
        if number != self._number:
            import faulthandler

            faulthandler.register(self._signal, file=number, all_threads=True, chain=False)
            self._number = number


def _free() -> int | None:
    """A real-time signal that nobody handles; None where there is no such signal, or none is free."""
    first, last = getattr(signal, "SIGRTMIN", None), getattr(signal, "SIGRTMAX", None)
    if first is None or last is None:
        return None
    for number in range(first + 8, last - 8):
        if signal.getsignal(number) == signal.SIG_DFL:
            return int(number)
    return None
