"""Texts in the reader's language: messages by their catalogue, sentences that are no messages yet by their patterns."""

from __future__ import annotations

from collections.abc import Callable

from hermes.base.message import Message, Text
from hermes.base.say import say
from hermes.report import chinese

Tell = Callable[[Text], str]
"""Puts a text into one language."""


def teller(language: str) -> Tell:
    """What puts texts into a language: `en` or `zh`."""
    return _in_chinese if language == "zh" else say


def _in_chinese(text: Text) -> str:
    if isinstance(text, Message):
        return say(text, "zh")
    # What leaves least of it as it was.
    return min((chinese.told(text), chinese.labelled(text)), key=chinese.left)
