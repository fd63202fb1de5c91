"""The one line that capture says when something is wrong, and never twice the same."""

from __future__ import annotations

import sys

_said: set[str] = set()


def say(text: str) -> None:
    """One line on stderr, without control characters; silent when it was said before, or when stderr is closed."""
    line = "".join(character if character.isprintable() else " " for character in text)
    if line in _said:
        return
    _said.add(line)
    try:
        print(f"hermes: {line}", file=sys.stderr, flush=True)  # noqa: T201 - stderr is all there is in a user's process
    except (OSError, ValueError, AttributeError):
        return
