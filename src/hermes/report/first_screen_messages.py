"""The labels of the first screen of a report."""

from __future__ import annotations

from hermes.base.message import Count, message, sentence

RECORD = sentence("first_screen.record")
REST = sentence("first_screen.rest")


@message("first_screen.more")
def more(*, n: Count) -> None:
    """How many more notes there are on missing data."""
