"""Writes lines to stderr without ever waiting: a full pipe or a stopped terminal does not hold the job."""

from __future__ import annotations

import os
import select
import signal

_LONGEST = 4000
"""Longest line in bytes: a pipe that is writable at all has room for 4096 bytes (pipe(7))."""


def tell(text: str) -> bool:
    """Print a text on stderr without control characters; False when stderr takes nothing now. Never raises, never
    waits."""
    return write(f"hermes: {text}".encode("utf-8", "backslashreplace"))


def write(line: bytes) -> bool:
    """Write one line to stderr, cut at the longest length; False when stderr takes nothing now."""
    clean = "".join(one if one.isprintable() else " " for one in line.decode("utf-8", "replace"))
    raw = clean.encode("utf-8", "replace")[:_LONGEST] + b"\n"
    try:
        # A terminal may stop a process that writes from the background: not for a line of Hermes.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            ready = select.poll()
            ready.register(2, select.POLLOUT)
            if not ready.poll(0):
                return False
            os.write(2, raw)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    except OSError:
        return True
    return True
