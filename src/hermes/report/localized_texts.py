"""Translates texts into the reader's language: messages by their catalogue, other sentences by their patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hermes.base.message import Argument, Message, Text
from hermes.base.say import say
from hermes.report import chinese_sentences

Tell = Callable[[Text], str]
"""The type of functions that say a text in one language."""


def teller(language: str) -> Tell:
    """A function that says texts in a language: `en` or `zh`."""
    return _in_chinese if language == "zh" else say


def _in_chinese(text: Text) -> str:
    if isinstance(text, Message):
        return say(replace(text, arguments=tuple(map(_whole, text.arguments))), "zh")
    # Take the translation that leaves the fewest English letters.
    return min((chinese_sentences.in_chinese(text), chinese_sentences.labelled(text)), key=chinese_sentences.left)


def _whole(argument: Argument) -> Argument:
    """An argument in Chinese, with those sentences in it that are no messages yet."""
    if argument.kind == "message" and argument.value is not None:
        return replace(argument, value=_within(argument.value))
    if argument.kind == "messages" and argument.value is not None:
        return replace(argument, value=tuple(map(_within, argument.value)))
    return argument


def _within(text: Text) -> Text:
    if isinstance(text, Message):
        return replace(text, arguments=tuple(map(_whole, text.arguments)))
    return _in_chinese(text)
