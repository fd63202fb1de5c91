"""Writes the message catalogue as JSON for web pages, which make the same sentences by `assets/components/say.js`."""

from __future__ import annotations

from functools import cache
from typing import Any

from hermes.base.say import LANGUAGES, catalogue

Template = str | dict[str, str]
"""A sentence with its gaps; for a plural, one sentence for each plural category of the language."""
_ORDER = ("zero", "one", "two", "few", "many", "other")


@cache
def templates(language: str) -> dict[str, Template]:
    """All sentences of a language by identifier; a sentence missing in the language is given in English."""
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
