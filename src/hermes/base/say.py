"""Makes sentences of messages, in English and Chinese, from the catalogues in `hermes/base/catalogue`.

A catalogue sentence names its arguments in braces. Text between `[[` and `]]` is left out where one of its arguments
is absent. A message with an argument `n` may have a plural.
"""

from __future__ import annotations

import gettext
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.base.message import KINDS, Argument, Count, Kind, Message, Name, Text, declared, message
from hermes.base.sanitize_text import harmless_line
from hermes.base.units import bytes_text, duration

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

LANGUAGES = ("en", "zh")
CATALOGUE = Path(__file__).parent / "catalogue"
_GAP = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{(\w+)\}")
_ESCAPED = {"{{": "{", "}}": "}"}
_DIGITS = 3
_RUNS_SHOWN = 6


class SentencePiece(NamedTuple):
    """A piece of a sentence; `foreign` text comes from outside or is code, and is the same in every language."""

    text: str
    foreign: bool = False


def language_of(environment: Mapping[str, str]) -> str:
    """The language of the locale, if Hermes has sentences in it; otherwise English."""
    chosen = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "")
    return next((one for one in LANGUAGES if chosen.startswith(one)), "en")


def say(text: Text, language: str = "en") -> str:
    """The sentence of a message in a language; a text that is no message is returned unchanged."""
    return text if isinstance(text, str) else "".join(piece.text for piece in pieces(text, language))


def pieces(message: Message, language: str = "en") -> tuple[SentencePiece, ...]:
    """The sentence of a message in pieces: a report may show foreign text in another style."""
    arguments = {one.name: one for one in message.arguments}
    said = tuple(_filled(_parsed(template(message, language)), arguments, language))
    return tuple(piece for piece in said if piece.text)


def template(message: Message, language: str) -> str:
    """The catalogue sentence of a message with its gaps unfilled, in the plural that argument `n` asks for.

    A message without a sentence in the language is said in English; without an English sentence, by its identifier.
    """
    n = next((one.value for one in message.arguments if one.name == "n"), None)
    for tried in (language, "en"):
        known = _translations(tried)
        found = known.gettext(message.identifier) if n is None else known.ngettext(message.identifier, "", n)
        if found and found != message.identifier:
            return found
    return " ".join((message.identifier, *(f"{one.name}={{{one.name}}}" for one in message.arguments)))


def prepare() -> None:
    """Load the English catalogue and the formatting of numbers and lists ahead of the first sentence."""
    _translations("en")
    _list(["a", "b"], "en")


def catalogue(language: str) -> Catalog:
    """All sentences of a language, as Babel reads the catalogue."""
    from babel.messages.pofile import read_po

    with (CATALOGUE / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language)


@cache
def _translations(language: str) -> gettext.GNUTranslations:
    from babel.messages.mofile import write_mo

    held = io.BytesIO()
    write_mo(held, catalogue(language))
    held.seek(0)
    return gettext.GNUTranslations(held)


class _Gap(NamedTuple):
    name: str


class _Optional(NamedTuple):
    parts: tuple[_Part, ...]


_Part = str | _Gap | _Optional


@lru_cache(maxsize=4_096)
def _parsed(text: str) -> tuple[_Part, ...]:
    """The parts of a sentence; raises `ValueError` where brackets do not close."""
    levels: list[list[_Part]] = [[]]
    at = 0
    for found in _GAP.finditer(text):
        levels[-1].append(text[at : found.start()])
        at = found.end()
        sign = found[0]
        if sign == "[[":
            levels.append([])
        elif sign == "]]" and len(levels) > 1:
            parts = levels.pop()
            levels[-1].append(_Optional(tuple(parts)))
        else:
            levels[-1].append(_Gap(found[1]) if found[1] else _ESCAPED.get(sign, sign))
    if len(levels) > 1:
        raise ValueError(f"[[ is not closed: {text}")
    return (*levels[0], text[at:])


def gaps(text: str) -> frozenset[str]:
    """The names of the arguments that a sentence has gaps for."""
    return frozenset(found[1] for found in _GAP.finditer(text) if found[1])


def _filled(parts: Iterable[_Part], arguments: Mapping[str, Argument], language: str) -> Iterator[SentencePiece]:
    for part in parts:
        if isinstance(part, str):
            yield SentencePiece(part)
        elif isinstance(part, _Optional):
            if all(arguments[name].value not in (None, "", ()) for name in _names(part)):
                yield from _filled(part.parts, arguments, language)
        else:
            yield from _said(arguments[part.name], language)


def _names(part: _Optional) -> Iterator[str]:
    for one in part.parts:
        if isinstance(one, _Gap):
            yield one.name


def _said(argument: Argument, language: str) -> Iterator[SentencePiece]:
    kind, value = argument.kind, argument.value
    if value is None:
        yield from pieces(_not_measured(), language)
    elif kind == "name":
        yield SentencePiece(harmless_line(value), foreign=True)
    elif kind == "names":
        yield from _listed([[SentencePiece(harmless_line(one), foreign=True)] for one in value], language)
    elif kind == "message":
        yield from _whole(value, language)
    elif kind == "messages":
        yield from _listed([list(_whole(one, language)) for one in value], language)
    else:
        yield SentencePiece(_WRITTEN[kind](value, language))


def _whole(text: Text, language: str) -> Iterator[SentencePiece]:
    """The pieces of a message that stands inside another sentence."""
    yield from (SentencePiece(text),) if isinstance(text, str) else pieces(text, language)


def _listed(items: list[list[SentencePiece]], language: str) -> Iterator[SentencePiece]:
    """A list as `a, b and c`; the pieces of each item stay unchanged."""
    signs = [chr(0xE000 + at) for at in range(len(items))]
    for one in re.split("([\ue000-\uf8ff])", _list(signs, language)):
        if one and one[0] in signs:
            yield from items[ord(one) - 0xE000]
        elif one:
            yield SentencePiece(one)


def _list(words: list[str], language: str) -> str:
    from babel.lists import format_list

    if language == "zh" and all(word.isascii() for word in words):
        # Babel sets no space between numbers and the Chinese word for "and".
        return "、".join(words)

    # In British English no comma stands before "and".
    return format_list(words, locale="en_GB" if language == "en" else language) if words else ""


@message("base.not_measured")
def _not_measured() -> None:
    """The words for a value that was not measured, or that is no number."""


@message("base.more")
def _more(*, n: Count) -> None:
    """The words for runs of numbers that a list leaves out."""


@message("base.range")
def _range(*, first: Name, last: Name) -> None:
    """The words for a run of numbers."""


@message("base.no_ranks")
def _no_ranks() -> None:
    """The words for an empty list of ranks."""


@message("base.ranks")
def _ranks(*, n: Count, which: Name) -> None:
    """The words for a list of rank numbers."""


@message("base.no_steps")
def _no_steps() -> None:
    """The words for an empty list of steps."""


@message("base.steps")
def _steps(*, n: Count, which: Name) -> None:
    """The words for a list of step numbers."""


def _count(value: int, _language: str) -> str:
    # English and Chinese both group digits by three; Babel refuses numbers of many digits.
    return f"{value:,}"


def number(value: float, language: str = "en") -> str:
    """A number with three significant digits: `3.14`, `1,570`.

    A tie of its shortest decimal text is rounded to even.
    """
    from babel.numbers import format_decimal

    if not math.isfinite(value):
        return str(value)
    shortest = Decimal(repr(float(value)))
    digits = _DIGITS - 1 - (math.floor(math.log10(abs(value))) if value else 0)
    if abs(digits) > 2 * _DIGITS:
        return f"{float(f'{shortest:.2e}'):.2e}"
    return format_decimal(round(shortest, max(digits, 0)), format=f"#,##0.{'#' * max(digits, 0)}", locale=language)


def _share(value: float, language: str) -> str:
    from babel.numbers import format_percent

    if not math.isfinite(value):
        return say(_not_measured(), language)
    if 0 < value < 0.0005:
        return "<0.1%"
    return format_percent(value, format="0%" if abs(value) >= 0.0995 else "0.#%", locale=language)


def _runs(values: tuple[int, ...], language: str) -> str:
    """Whole numbers with runs of three and more shortened: `0 to 7, 9 and 12`; of many numbers only the first."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    kept = runs if len(runs) <= _RUNS_SHOWN else runs[: _RUNS_SHOWN // 2]
    said: list[str] = []
    for run in kept:
        if len(run) > 2:
            said.append(say(_range(first=str(run[0]), last=str(run[-1])), language))
        else:
            said += map(str, run)
    if len(kept) < len(runs):
        said.append(say(_more(n=len(values) - sum(map(len, kept))), language))
    return _list(said, language)


def _numbered(none: Message, several: Callable[..., Message]) -> Callable[[Any, str], str]:
    """A function that says numbers as `rank 3`, `ranks 0 to 7` or `no rank`."""

    def said(value: Any, language: str) -> str:
        values = value if isinstance(value, tuple) else (value,)
        return say(several(n=len(values), which=_runs(values, language)) if values else none, language)

    return said


_RANKS, _STEPS = _numbered(_no_ranks(), _ranks), _numbered(_no_steps(), _steps)
_WRITTEN: Mapping[Kind, Callable[[Any, str], str]] = {
    "ns": lambda value, _: duration(value), "bytes": lambda value, _: bytes_text(value), "count": _count,
    "number": number,
    "share": _share, "rank": _RANKS, "ranks": _RANKS, "step": _STEPS, "steps": _STEPS,
}  # fmt: skip


def message_as_json(text: Text) -> dict[str, Any]:
    """A text as JSON values: its English sentence; for a message also its identifier and its arguments by kind."""
    if isinstance(text, str):
        return {"text": text}
    arguments = {one.name: {one.kind: _plain(one)} for one in text.arguments}
    return {"id": text.identifier, "arguments": arguments, "text": say(text)}


def _plain(argument: Argument) -> Any:
    kind, value = argument.kind, argument.value
    if value is None:
        return None
    if kind == "message":
        return message_as_json(value)
    if kind == "messages":
        return [message_as_json(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return list(value) if isinstance(value, tuple) else value


def read_told(document: Mapping[str, Any]) -> Text:
    """The text that `message_as_json` made these JSON values of; raises `ValueError` for other values."""
    try:
        if "id" not in document:
            return str(document["text"])
        return Message(str(document["id"]), tuple(_argument(name, of) for name, of in document["arguments"].items()))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no text: {type(error).__name__}: {error}") from error


def read_foreign(document: Mapping[str, Any], most: int) -> Text:
    """The text of a document from outside, read as by `read_told`: only a declared message with arguments of its kinds.

    Any other document gives its English text, at most `most` characters. Raises `ValueError` if there is no text
    either.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("text", ""), str):
        raise ValueError("no text")
    plain = str(document.get("text", ""))[:most]
    try:
        made = read_told(document)
        if isinstance(made, str):
            return plain
        known, kinds = declared().get(made.identifier), {one.name: one.kind for one in made.arguments}
        sound = known is not None and kinds == dict(known.kinds)
        return made if sound and all(len(say(made, one)) <= 10 * most for one in LANGUAGES) else plain
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return plain


def _argument(name: str, of: Mapping[str, Any]) -> Argument:
    ((kind, value),) = of.items()
    known = next((one for one in KINDS if one == kind), None)
    if known is None:
        raise ValueError(f"no kind of argument: {kind!r}")
    if value is not None and kind == "message":
        value = read_told(value)
    elif value is not None and kind == "messages":
        value = tuple(map(read_told, value))
    return Argument(name, known, tuple(value) if isinstance(value, list) else value)
