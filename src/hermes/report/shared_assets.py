"""Loads scripts, styles and words that the one-file report and the web app share, and bundles the report's script."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from hermes.base.say import say
from hermes.model.declare import declared, spread_out
from hermes.model.fault import Fault

_ASSETS = Path(__file__).parent / "assets"
_COMPONENTS = _ASSETS / "components"
_TRANSLATIONS = _ASSETS / "translations"
_CATALOGUE = "english_chinese.json"
_SENTENCES = "sentences.json"
# The report's own modules: `data.js` replaces the web app's module that asks its server.
_OWN = ("data.js", "document.js", "report.js", "shell.js")

LANGUAGES = ("en", "zh")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async function|function|class|const) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?://.*|/\*\*(?:(?!\*/)[\s\S])*\*/[ \t]*)\n", re.MULTILINE)
_ANOTHER = re.compile(r"^\s*(?:import|export)\b|\bimport\s*[(.]", re.MULTILINE)
_WORD = re.compile(r"""\b(?:t|has)\((["`])([^"`$]+)(\$\{)?""")
# The titles of the report's tables and columns come with the report's data.
_TOLD_ELSEWHERE = {"col.", "table."}
_CHOSEN = re.compile(r"""\bt\([^()"`]*\? "([^"]+)" : "([^"]+)\"""")


class BundleError(ValueError):
    """Raised for a module that uses a feature which this bundler does not support."""


@cache
def files() -> dict[str, bytes]:
    """Each shared file by its name, as the web app serves it to a page."""
    return _kept() | {_SENTENCES: json.dumps(sentences(), ensure_ascii=False).encode()}


@cache
def _kept() -> dict[str, bytes]:
    """The shared files as they lie: a page in English needs no catalogue of Chinese sentences."""
    return {path.name: path.read_bytes() for path in sorted([*_COMPONENTS.iterdir(), *_TRANSLATIONS.iterdir()])}


def sentences() -> dict[str, str]:
    """Chinese sentences of the analysis by the English ones, with `{}` for gaps; faults bring their own sentences."""
    own: dict[str, str] = json.loads((_TRANSLATIONS / _SENTENCES).read_bytes())
    return {say(one.message): say(one.message, "zh") for one in Fault} | own


def catalogue() -> dict[str, list[str]]:
    """Every word of the pages in English and Chinese by key, with those of the measures declared so far."""
    own: dict[str, list[str]] = json.loads((_TRANSLATIONS / _CATALOGUE).read_bytes())
    return declared_words() | own


def declared_words() -> dict[str, list[str]]:
    """Titles of measures and their columns by key: a page that did not load them gets them with its data."""
    words: dict[str, list[str]] = {}
    for about in declared().values():
        words.setdefault(f"table.{about.path}", [about.title, about.zh])
        for column, prefix in spread_out(about.columns):
            if column.title:
                words.setdefault(f"col.{prefix}{column.key}", [column.title, column.zh])
    return words


@cache
def script(entry: str = "report.js") -> str:
    """The script of a one-file page: its modules and those they import, each in its own scope, without comments."""
    return bundled(entry, {**{name: body.decode() for name, body in _kept().items()}, **_own()})


@cache
def style() -> str:
    """The style of the shared scripts' drawings."""
    return _kept()["components.css"].decode()


@cache
def words(language: str = "en", entry: str = "report.js") -> dict[str, str]:
    """The words that the script may show, by their keys in the catalogue."""
    keys, prefixes = message_keys(script(entry))
    place = LANGUAGES.index(language)
    return {
        key: both[place]
        for key, both in catalogue().items()
        if key in keys or any(key.startswith(one) for one in prefixes)
    }


def message_keys(text: str) -> tuple[set[str], set[str]]:
    """The catalogue keys in a script, and the prefixes of keys that the script completes."""
    found = _WORD.findall(text)
    keys = {key for _, key, open_ in found if not open_} | {key for pair in _CHOSEN.findall(text) for key in pair}
    return keys, {key for _, key, open_ in found if open_} - _TOLD_ELSEWHERE


def bundled(entry: str, modules: dict[str, str]) -> str:
    """One script of the module `entry` and all its imports, each module in its own scope.

    A module may import names of others by `import { a, b as c } from "./file.js";` and export functions, classes and
    constants where they are defined. Raises `BundleError` for any other form, for a cycle, and for a missing name.
    """
    done: dict[str, tuple[str, ...]] = {}
    parts: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise BundleError(f"modules import each other: {' > '.join((*above, name))}")
        if name in done:
            return
        if name not in modules:
            raise BundleError(f"{above[-1] if above else 'the entry'} imports {name}, which is not there")
        body, imports = _taken_apart(modules[name])
        for _, other in imports:
            add(other, (*above, name))
        done[name] = tuple(own for _, own in _EXPORT.findall(body))
        parts.append(_scope(name, body, imports, done))

    add(entry, ())
    text = "".join(parts)
    if re.search(r"</script|<!--", text, re.IGNORECASE):
        raise BundleError("a script that stands in a page may not hold the end of itself")
    return text


def _taken_apart(text: str) -> tuple[str, list[tuple[list[tuple[str, str]], str]]]:
    imports = [(_names(names), other) for names, other in _IMPORT.findall(text)]
    body = _COMMENT.sub("", _IMPORT.sub("", text))
    if strange := _ANOTHER.search(_EXPORT.sub(r"\1", body)):
        line = body[: strange.end()].count("\n")
        raise BundleError(f"not a form of import or export that is known: {body.splitlines()[line][:80]}")
    return body, imports


def _names(text: str) -> list[tuple[str, str]]:
    """Each imported name, and its name in the importing module."""
    pairs = [part.split(" as ") for part in text.split(",") if part.strip()]
    return [(pair[0].strip(), pair[-1].strip()) for pair in pairs]


def _scope(
    name: str, body: str, imports: list[tuple[list[tuple[str, str]], str]], done: dict[str, tuple[str, ...]]
) -> str:
    taken = []
    for names, other in imports:
        if missing := [one for one, _ in names if one not in done[other]]:
            raise BundleError(f"{name} imports {', '.join(missing)} from {other}, which has no such export")
        said = ", ".join(one if one == here else f"{one}: {here}" for one, here in names)
        taken.append(f"const {{ {said} }} = {_variable(other)};\n")
    given = f"return {{ {', '.join(done[name])} }};\n" if done[name] else ""
    bound = f"const {_variable(name)} = " if given else ""
    return "".join((bound, "(() => {\n", *taken, _EXPORT.sub(r"\1", body), given, "})();\n"))


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))


def _own() -> dict[str, str]:
    return {name: (_ASSETS / name).read_text("utf-8") for name in _OWN}
