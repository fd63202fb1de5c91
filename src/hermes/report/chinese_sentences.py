"""Translates sentences of the analysis and the terminal into Chinese: as a whole, by pattern, or part by part."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from functools import cache

from markupsafe import escape

from hermes.base.say import language_of
from hermes.report.shared_assets import catalogue, sentences

LANGUAGES = ("en", "zh")
_TO_DO = (" To do: ", "。怎么做：")
_PLACE = re.compile(r"((?:[A-Z]{2,4}\d{3} )?(?:\S+:\d+ `[^`]*`: )?)(.+)", re.DOTALL)
"""Matches the code of a finding and a line of the user's code, which stay unchanged before the translated sentence."""
_PARTS = (("  ", "  "), (" · ", " · "), ("; ", "；"), (", ", "，"))
_LONGEST = 1_000
_CHINESE = re.compile(".{0,12}[\u4e00-\u9fff]")
"""Matches a text that begins in Chinese: such a text stays as it is."""
_GAP = re.compile(r"\{(\d)\}")


def language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of the locale, if there is a translation into it; else English."""
    return language_of(environment)


def in_chinese(text: str) -> str:
    """The text in Chinese if its translation is known, else unchanged. Space around the text stays."""
    bare = text.strip()
    if not bare or len(bare) > _LONGEST or not re.search("[a-z]{2}", bare) or _CHINESE.match(bare):
        return text
    return text.replace(bare, _said(bare), 1)


# HTML of code, or of names from the input, is not translated.
_PIECE = re.compile(
    r"<(script|style|pre|code)\b.*?</\1>|<(t[dh])[^>]* class=\"name\">.*?</\2>|<[^>]*>|[^<]+", re.DOTALL
)
_TITLE = re.compile(r'(?<= )title="([^"]*)"')
_BETWEEN = re.compile(r"(?<=>)[^<]+")
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
_NEARLY = 0.2
_LETTER = re.compile("[a-z]")
_NUMBERED = re.compile(r"(\d+\. )(.+)", re.DOTALL)
_SAID_ASIDE = re.compile(r'(?<= )(title|aria-label|data-label)="([^"]*)"')


def page(text: str) -> str:
    """A page of Hermes with its sentences in Chinese; scripts, style and code stay unchanged."""
    return _PIECE.sub(lambda found: _piece(found[0]), text).replace('<html lang="en">', '<html lang="zh-CN">', 1)


def _piece(text: str) -> str:
    if text.startswith("<t") and text.count("<") > 1:
        text = _TITLE.sub(lambda found: f'title="{escape(name_in_chinese(html.unescape(found[1])))}"', text)
        return _BETWEEN.sub(lambda found: str(escape(name_in_chinese(html.unescape(found[0])))), text)
    if text.startswith("<") and text.count("<") > 1:
        return text
    if text.startswith("<"):
        return _SAID_ASIDE.sub(lambda found: f'{found[1]}="{_of_page(found[2])}"', text)
    return _of_page(text)


def _of_page(text: str) -> str:
    plain = " ".join(html.unescape(text).split())
    said = labelled(plain)
    # A page without a translated sentence stays as written.
    return text if said == plain else _around(text, str(escape(said)))


def labelled(text: str) -> str:
    """A sentence or label in Chinese: text before a colon and text after a number are translated separately."""
    if text in _labels() or text.lower() in _labels():
        return _labels().get(text) or _labels()[text.lower()]
    if found := _NUMBERED.fullmatch(text):
        return found[1] + labelled(found[2])
    if text.endswith(":") and (bare := labelled(text[:-1])) != text[:-1]:
        return f"{bare}："
    for at in reversed([found.start() for found in re.finditer(": ", text)]):
        if text[:at] in _labels():
            return f"{_labels()[text[:at]]}：{labelled(text[at + 2 :])}"
    ways = [in_chinese(text)]
    if len(several := _SENTENCE.split(text)) > 1:
        ways.append("".join(labelled(one) for one in several))
    elif text.endswith("."):
        ways.append(f"{labelled(text[:-1])}。")
    if "; " in text:
        ways.append("；".join(labelled(one) for one in text.split("; ")))
    # Take the translation that leaves the fewest English letters.
    return min(ways, key=left)


def left(said: str) -> int:
    """The number of English letters that a translation leaves."""
    return len(_LETTER.findall(said))


def name_in_chinese(text: str) -> str:
    """A text at a place of input names: translated only if it is almost wholly a sentence of Hermes."""
    said = in_chinese(text) if text.count(" ") > 1 else text
    return said if len(_LETTER.findall(said)) < _NEARLY * len(text) else text


@cache
def _labels() -> dict[str, str]:
    """Titles of tables and columns and words of the pages, as written and in small letters, with their Chinese."""
    both = [(english, said) for english, said in catalogue().values() if "{" not in english]
    lower = {english.lower(): said for english, said in reversed(both)}
    return lower | dict(reversed(both)) | _known()[0]


def _around(text: str, said: str) -> str:
    """The translated text with the space that stood around the original."""
    return f"{text[: len(text) - len(text.lstrip())]}{said}{text[len(text.rstrip()) :]}"


@cache
def _said(text: str) -> str:
    whole, shapes = _known()
    if text in whole:
        return whole[text]
    if _TO_DO[0] in text:
        return _TO_DO[1].join(in_chinese(part) for part in text.split(_TO_DO[0]))
    if (placed := _PLACE.fullmatch(text)) and placed[1]:
        return placed[1] + in_chinese(placed[2])
    for of, said in (*shapes.get(text.split(" ")[0], ()), *shapes.get("", ())):
        if found := of.fullmatch(text):
            gaps = [in_chinese(gap) for gap in found.groups()]
            return "".join(gaps[int(part) - 1] if at % 2 else part for at, part in enumerate(_GAP.split(said)))
    for between, joined in _PARTS:
        parts = text.split(between)
        if len(parts) > 1 and (said_parts := [in_chinese(part) for part in parts]) != parts:
            return joined.join(said_parts)
    return text


@cache
def _known() -> tuple[dict[str, str], dict[str, list[tuple[re.Pattern[str], str]]]]:
    """The known sentences: whole ones, and patterns with gaps by their first word, the longest pattern first."""
    whole = {sentence: said for sentence, said in sentences().items() if "{}" not in sentence}
    shapes: dict[str, list[tuple[re.Pattern[str], str]]] = {}
    for sentence, said in sorted(sentences().items(), key=lambda item: -len(item[0])):
        if "{}" in sentence:
            parts = [re.escape(part) for part in sentence.split("{}")]
            # A gap that begins a sentence is a number or a code: a gap for any words would match too much.
            first = r"(\S+(?: (?:[num]?s|[kMGT]?B))?)" if not parts[0] else "(.+?)"
            source = parts[0] + first + "(.+?)".join(parts[1:])
            word = sentence.partition("{}")[0]
            shapes.setdefault(word.split(" ")[0] if " " in word else "", []).append((re.compile(source, re.S), said))
    return whole, shapes
