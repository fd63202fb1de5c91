"""The case base: causes of slow training, how each cause shows, its cure, and the sources.

Each layer is one TOML file, each cause one table such as `[IO-01]`. An id is never used for another cause.
`sources.toml` names the sources once; an entry cites `key` or `key: place in it`. `variables.toml` lists the
environment variables that cures may name, each under the source that its spelling was checked against. The wording is
Hermes' own; the facts are from the sources.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError
from hermes.knowledge.cases.predicate import Predicate, parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LAYERS: dict[str, str] = {
    "io": "IO",
    "cpu": "CPU",
    "compute": "CMP",
    "communication": "COM",
    "memory": "MEM",
    "parallelism": "PAR",
    "environment": "ENV",
}
"""Every layer and the prefix of its ids, in the order of the pages."""
CHIPS = ("ascend", "cuda", "rocm", "cpu")
NO_GAIN = "none published"
CHECKED = "yes"

_FOLDER = Path(__file__).parent
_NO_ENTRY = re.compile(r"^no, \S")


class CaseError(HermesError):
    """An entry of the case base has the wrong form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A source with its title and address, and the place in the source."""

    title: str
    where: str
    place: str

    def __str__(self) -> str:
        return f"{self.title}: {self.place}" if self.place else self.title


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A known cause of slow training, with its symptoms, its cure and its sources.

    `symptoms` are how the cause shows in the measures: all symptoms must hold, and one alone proves nothing.
    `not_measured` are signs that no measure shows yet. `before` and `after` are the change itself: code, command or
    configuration. `elsewhere` replaces `after` on chips other than Ascend, empty if the change is the same. `gain` is a
    published figure with its source, else `none published`; it is never a prediction. `checked` is `yes` when names,
    defaults and versions were compared with the sources, else `no, ` and the open question.
    """

    id: str
    layer: str
    cause: str
    symptoms: tuple[Predicate, ...]
    not_measured: tuple[str, ...]
    confirm: str
    cure: str
    before: str
    after: str
    framework: str
    chips: tuple[str, ...]
    versions: str
    gain: str
    gain_source: Citation | None
    risk: str
    sources: tuple[Citation, ...]
    checked: str
    elsewhere: str = ""

    def on(self, chips: Collection[str]) -> Case:
        """The case with the change for these chips; without known chips, the case as written."""
        return replace(self, after=self.elsewhere) if self.elsewhere and chips and "ascend" not in chips else self

    @property
    def is_lead(self) -> bool:
        """Whether a fact of the case is unchecked: then the case is only a lead, and ranks below checked cases."""
        return self.checked != CHECKED


SAID = ("cause", "not_measured", "confirm", "cure", "framework", "gain", "risk")
"""Fields of a case that are sentences; `zh/LAYER.toml` has their Chinese under the same ids."""
_LISTS = ("symptoms", "not_measured", "chips", "sources")
_OPTIONAL = ("symptoms", "not_measured", "gain_source", "elsewhere")
_MADE = ("id", "layer")
_WRITTEN = tuple(field.name for field in fields(Case) if field.name not in _MADE)


@lru_cache(maxsize=len(LAYERS))
def cases_of(layer: str) -> tuple[Case, ...]:
    """The cases of one layer in the order of their file, which is read once."""
    return read(_FOLDER / f"{layer}.toml", layer, sources())


def cases() -> tuple[Case, ...]:
    """All cases, layer by layer."""
    return tuple(case for layer in LAYERS for case in cases_of(layer))


def case(identity: str) -> Case | None:
    """The case with an id such as `IO-01`, in upper or lower case; None if there is none."""
    wanted = identity.upper()
    layers = [layer for layer, prefix in LAYERS.items() if wanted.startswith(f"{prefix}-")]
    return next((one for layer in layers for one in cases_of(layer) if one.id == wanted), None)


@lru_cache(maxsize=len(LAYERS))
def _chinese(layer: str) -> dict[str, dict[str, Any]]:
    return _toml(_FOLDER / "zh" / f"{layer}.toml")


def in_chinese(one: Case) -> Case:
    """The case with its sentences in Chinese; code, symptoms and sources stay unchanged."""
    row = _chinese(one.layer).get(one.id, {})
    said: dict[str, Any] = {name: tuple(row[name]) if name in _LISTS else row[name] for name in SAID if name in row}
    return replace(one, **said)


def find(words: Iterable[str], among: Iterable[Case]) -> list[Case]:
    """The cases that contain every word, in upper or lower case.

    Cases with all words in id or cause come first, and checked cases before leads; otherwise the order stays.
    """
    wanted = [word.lower() for word in words]
    hits = [one for one in among if all(word in _text(one) for word in wanted)]
    return sorted(hits, key=lambda one: (not _names(one, wanted), one.is_lead) if wanted else (False, False))


def _names(one: Case, wanted: Iterable[str]) -> bool:
    return all(word in f"{one.id} {one.cause}".lower() for word in wanted)


@lru_cache(maxsize=1)
def sources() -> dict[str, tuple[str, str]]:
    """The title and address of every source, by key."""
    return {key: (row["title"], row["where"]) for key, row in _toml(_FOLDER / "sources.toml").items()}


@lru_cache(maxsize=1)
def variables() -> dict[str, str]:
    """Every environment variable that a cure may name, with the source that its spelling was checked against."""
    table = _toml(_FOLDER / "variables.toml")
    return {name: row["checked"] for row in table.values() for name in row["names"]}


def read(path: Path, layer: str, known: Mapping[str, tuple[str, str]]) -> tuple[Case, ...]:
    """The cases of a file; `known` are the sources. CaseError names the file, entry and field that are wrong."""
    made = []
    for identity, row in _toml(path).items():
        if not re.fullmatch(rf"{LAYERS[layer]}-\d\d", identity):
            raise CaseError(f"the id is not of the form {LAYERS[layer]}-01", where=f"{path.name}, [{identity}]")
        made.append(_case(f"{path.name}, [{identity}]", identity, layer, row, known))
    return tuple(made)


def _case(
    where: str, identity: str, layer: str, row: Mapping[str, object], known: Mapping[str, tuple[str, str]]
) -> Case:
    unknown, missing = sorted(row.keys() - set(_WRITTEN)), [n for n in _WRITTEN if n not in row and n not in _OPTIONAL]
    if unknown or missing:
        raise CaseError(f"fields unknown: {unknown}, missing: {missing}", where=where)
    text = {name: _word(where, name, row.get(name, "")) for name in _WRITTEN if name not in _LISTS}
    lists = {name: _words(where, name, row.get(name, [])) for name in _LISTS}
    _check(where, text, lists)
    return Case(
        id=identity,
        layer=layer,
        cause=text["cause"],
        symptoms=tuple(_predicate(where, one) for one in lists["symptoms"]),
        not_measured=lists["not_measured"],
        confirm=text["confirm"],
        cure=text["cure"],
        before=text["before"],
        after=text["after"],
        framework=text["framework"],
        chips=lists["chips"],
        versions=text["versions"],
        gain=text["gain"],
        gain_source=_cite(where, text["gain_source"], known) if text["gain_source"] else None,
        risk=text["risk"],
        sources=tuple(_cite(where, one, known) for one in lists["sources"]),
        checked=text["checked"],
        elsewhere=text["elsewhere"],
    )


def _check(where: str, text: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]) -> None:
    """Check the values of fields beyond their types."""
    for name, value in text.items():
        if not value and name not in _OPTIONAL:
            raise CaseError(f"{name} is empty", where=where)
    if not lists["symptoms"] and not lists["not_measured"]:
        raise CaseError("neither symptoms nor not_measured", where=where)
    if not lists["sources"]:
        raise CaseError("sources are empty", where=where)
    if not lists["chips"] or not set(lists["chips"]) <= set(CHIPS):
        raise CaseError(f"chips are some of {', '.join(CHIPS)}, not {', '.join(lists['chips'])}", where=where)
    if (text["gain"] == NO_GAIN) is bool(text["gain_source"]):
        raise CaseError("a gain has a gain_source, and only a gain has one", where=where)
    if text["checked"] != CHECKED and not _NO_ENTRY.match(text["checked"]):
        raise CaseError("checked is 'yes', or 'no, ' and what is open", where=where)


def _predicate(where: str, text: str) -> Predicate:
    try:
        return parse(text)
    except ValueError as wrong:
        raise CaseError(f"symptoms: {wrong}", where=where) from wrong


def _cite(where: str, text: str, known: Mapping[str, tuple[str, str]]) -> Citation:
    key, _, place = text.partition(": ")
    if key not in known:
        raise CaseError(f"there is no source {key!r} in sources.toml", where=where)
    title, address = known[key]
    return Citation(title=title, where=address, place=place)


def _word(where: str, name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CaseError(f"{name} is no text", where=where)
    return value.strip()


def _words(where: str, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise CaseError(f"{name} is no list of texts", where=where)
    return tuple(value)


def _text(one: Case) -> str:
    """All text of a case that a search looks at."""
    parts = [
        one.id,
        one.layer,
        one.cause,
        one.confirm,
        one.cure,
        one.before,
        one.after,
        one.elsewhere,
        one.framework,
        one.versions,
    ]
    parts += [*one.chips, *one.not_measured, *(p.text for p in one.symptoms), *map(str, one.sources)]
    return "\n".join(parts).lower()


def _toml(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file by name."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as broken:
        raise CaseError(f"not TOML: {broken}", where=path.name) from broken
