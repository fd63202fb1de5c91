"""What a replay says of changes."""

from __future__ import annotations

from hermes.base.message import Name, Names, message, sentence

NOTHING_ALIKE = sentence("whatif.do.nothing_alike")


@message("whatif.matches_nothing")
def matches_nothing(*, change: Name) -> None:
    """A change that touches nothing in the step."""


@message("whatif.do.ask_for")
def ask_for(*, changes: Names) -> None:
    """Changes of the same sort that touch something."""
