"""The catalogue of messages as JSON, from which pages make the same sentences; see `assets/components/say.js`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from hermes.base.say import LANGUAGES, catalogue

Template = str | dict[str, str]
"""A sentence with its gaps; with a plural, one for each category of its language."""
_ORDER = ("zero", "one", "two", "few", "many", "other")


@cache
def templates(language: str) -> dict[str, Template]:
    """All sentences of a language by their identifiers; where it has none, the English one stands."""
    from babel import Locale

    tags = {*Locale.parse(language).plural_form.tags, "other"}
    categories = [one for one in _ORDER if one in tags]
    own: dict[str, Template] = {}
    for message in catalogue(language):
        said: Any = message.string
        if isinstance(said, str):
            if message.id and said:
                own[str(message.id)] = said
        elif all(said):
            own[str(message.id[0])] = dict(zip(categories, said, strict=True))
    return own if language == LANGUAGES[0] else templates(LANGUAGES[0]) | own


def needed(document: object, language: str) -> dict[str, Template]:
    """The sentences of the messages that a document holds, with those that numbers and lists are written by."""
    every = templates(language)
    said = {name for name in every if name.startswith("base.")} | set(_identifiers(document))
    return {name: every[name] for name in sorted(said) if name in every}


def _identifiers(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str) and "text" in value:
            yield value["id"]
        yield from _each(value.values())
    elif isinstance(value, list):
        yield from _each(value)


def _each(values: Iterable[object]) -> Iterator[str]:
    for one in values:
        yield from _identifiers(one)
