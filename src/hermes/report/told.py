"""Texts in the reader's language: messages by their catalogue, sentences that are no messages yet by their patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hermes.base.message import Argument, Message, Text
from hermes.base.say import say
from hermes.report import chinese

Tell = Callable[[Text], str]
"""Puts a text into one language."""


def teller(language: str) -> Tell:
    """What puts texts into a language: `en` or `zh`."""
    return _in_chinese if language == "zh" else say


def _in_chinese(text: Text) -> str:
    if isinstance(text, Message):
        return say(replace(text, arguments=tuple(map(_whole, text.arguments))), "zh")
    # What leaves least of it as it was.
    return min((chinese.told(text), chinese.labelled(text)), key=chinese.left)


def _whole(argument: Argument) -> Argument:
    """An argument with the sentences in it that are no messages yet in Chinese, too."""
    if argument.kind == "message" and argument.value is not None:
        return replace(argument, value=_within(argument.value))
    if argument.kind == "messages" and argument.value is not None:
        return replace(argument, value=tuple(map(_within, argument.value)))
    return argument


def _within(text: Text) -> Text:
    if isinstance(text, Message):
        return replace(text, arguments=tuple(map(_whole, text.arguments)))
    return _in_chinese(text)
