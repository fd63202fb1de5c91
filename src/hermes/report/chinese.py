"""Sentences of the analysis and of the terminal in Chinese: looked up whole, then by shape, then by their parts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from hermes.report.components import sentences

LANGUAGES = ("en", "zh")
_PARTS = (("  ", "  "), (" · ", " · "), ("; ", "；"), (", ", "，"))
_LONGEST = 1_000
_GAP = re.compile(r"\{(\d)\}")


def language(environment: Mapping[str, str] = os.environ) -> str:
    """That of the locale, where there is a translation into it; else English."""
    chosen = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "")
    return "zh" if chosen.startswith("zh") else "en"


def told(text: str) -> str:
    """The text in Chinese where it is known; else as it is. Space around it stays."""
    bare = text.strip()
    if not bare or len(bare) > _LONGEST or not re.search("[a-z]{2}", bare):
        return text
    return text.replace(bare, _said(bare), 1)


@cache
def _said(text: str) -> str:
    whole, shapes = _known()
    if text in whole:
        return whole[text]
    for of, said in (*shapes.get(text.split(" ")[0], ()), *shapes.get("", ())):
        if found := of.fullmatch(text):
            gaps = [told(gap) for gap in found.groups()]
            return "".join(gaps[int(part) - 1] if at % 2 else part for at, part in enumerate(_GAP.split(said)))
    for between, joined in _PARTS:
        parts = text.split(between)
        if len(parts) > 1 and (said_parts := [told(part) for part in parts]) != parts:
            return joined.join(said_parts)
    return text


@cache
def _known() -> tuple[dict[str, str], dict[str, list[tuple[re.Pattern[str], str]]]]:
    """Whole sentences, and those with gaps by their first word; what says more comes first."""
    whole = {sentence: said for sentence, said in sentences().items() if "{}" not in sentence}
    shapes: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for sentence, said in sorted(sentences().items(), key=lambda item: -len(item[0])):
        if "{}" in sentence:
            parts = [re.escape(part) for part in sentence.split("{}")]
            # A gap that begins a sentence is a number or a code: any words would be too many.
            first = r"(\S+(?: (?:[num]?s|[kMGT]?B))?)" if not parts[0] else "(.+?)"
            source = parts[0] + first + "(.+?)".join(parts[1:])
            word = sentence.partition("{}")[0]
            shapes.setdefault(word.split(" ")[0] if " " in word else "", []).append((re.compile(source, re.S), said))
    return whole, shapes
