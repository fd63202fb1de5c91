"""Prints one line when something is wrong with capture, and never the same line twice."""

from __future__ import annotations

import contextlib
import os
import sys

OFF = "capture-off.txt"
"""A file that a process leaves in the run directory if it cannot be watched: a missing step then means nothing."""
_said: set[str] = set()


def say(text: str) -> None:
    """Print one line on stderr, without control characters; nothing if the line was printed before, or if stderr is
    closed."""
    line = "".join(character if character.isprintable() else " " for character in text)
    if line in _said:
        return
    _said.add(line)
    try:
        print(f"hermes: {line}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is all there is in a user's process
    except (OSError, ValueError, AttributeError):
        return


def say_off(why: str) -> None:
    """Say that nothing is captured in this process, and why; also leave a note in the job's run directory."""
    say(f"capture is off: {why}")
    folder = os.environ.get("HERMES_JOB", "")
    if folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            descriptor = os.open(os.path.join(folder, OFF), flags, 0o600)  # noqa: PTH118 - not worth its import here
            try:
                os.write(descriptor, f"capture is off: {why}\n".encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
