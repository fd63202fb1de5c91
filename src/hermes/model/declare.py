"""The decorators that declare a measure once: its place in the report, and each field's meaning, unit and titles.

A measure's declaration gives the JSON of `hermes.report/1` with its schema and page, the columns of every table, and
the titles in English and Chinese. The declaration also gives the names that symptoms of cases may use. No other file
repeats these names.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

Kind = Literal[
    "ns", "us", "moment", "bytes", "count", "number", "share", "chance", "name", "word", "flag", "file", "list", "rows"
]  # fmt: skip
"""The kind of a value. Times: a duration (`us`: written in microseconds, as in Ascend's own file), or a moment on the
clock of its rank. Numbers: a size, a whole number, a decimal, a share, or a probability. Texts: text of a profile, a
word of Hermes, or the whole path of a file on this machine. Others: yes or no, a list of plain values, or rows of
another declaration.
"""

T = TypeVar("T")
Getter = TypeVar("Getter", bound=Callable[[Any], object])
_KEY = "hermes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMeaning:
    """The meaning, titles and other words given to `field` when a field was declared."""

    meaning: str
    title: str
    zh: str
    kind: Kind | None
    of: str
    key: str
    keys: tuple[str, ...]
    prefix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a declared kind of row.

    `name` is the attribute, `key` the name in JSON. `kind` says what the value is. `of` is the attribute that a
    duration is shown as a share of. `row` declares nested rows; with `prefix` they are one row whose fields stand
    beside the others. `keys` name the parts of a list of plain tuples. `json_type` is the type in JSON, in words.
    """

    name: str
    key: str
    kind: Kind
    json_type: str
    meaning: str
    title: str
    zh: str
    of: str
    row: type | None
    keys: tuple[str, ...]
    prefix: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A declared kind of row: its place in the report, its titles and its columns.

    `path` is empty for rows that only stand inside other rows. `most` is the number of rows that the report holds at
    most. `one`: the report has at most one such row, else null. `opened` names the nested rows that a table shows one a
    line. `shown` tells which rows a table shows at all.
    """

    row: type
    path: str
    title: str
    zh: str
    about: str
    most: int | None
    one: bool
    opened: tuple[NestedTable, ...]
    shown: Callable[[Any], bool]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the row, in their order."""
        return columns_of(self.row)


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedTable:
    """Nested rows that become a table of their own, with the columns of the row that holds them."""

    name: str
    title: str
    zh: str
    about: str


_DECLARED: dict[type, Declared] = {}


def field(
    meaning: str, title: str = "", zh: str = "", *, kind: Kind | None = None, of: str = "", key: str = "",
    keys: tuple[str, ...] = (), prefix: str | None = None, default: Any = dataclasses.MISSING,
) -> Any:  # fmt: skip
    """Declare a field of a row, with its meaning, titles and kind.

    Args:
        meaning: what the field says, for the page of the JSON report.
        title: title of the column in English; a field without a title is left out of tables.
        zh: title of the column in Chinese.
        kind: the kind of the value, where its name and type do not tell: see `Kind`.
        of: the field that a duration is a part of.
        key: the field's name in JSON, if it differs from the attribute; `-` keeps the field out of JSON.
        keys: names of the parts, for a list of plain tuples.
        prefix: the fields of this nested row stand beside the others, with `prefix` before their names.
        default: the default value, as in a dataclass.
    """
    said = FieldMeaning(meaning=meaning, title=title, zh=zh, kind=kind, of=of, key=key, keys=keys, prefix=prefix)
    return dataclasses.field(default=default, metadata={_KEY: said})


def derived(
    meaning: str, title: str = "", zh: str = "", *, kind: Kind | None = None, key: str = "", keys: tuple[str, ...] = ()
) -> Callable[[Getter], Getter]:
    """A decorator, below `property`, that makes a property a column too."""
    said = FieldMeaning(meaning=meaning, title=title, zh=zh, kind=kind, of="", key=key, keys=keys, prefix=None)

    def noted(getter: Getter) -> Getter:
        _PROPERTIES[getter] = said
        return getter

    return noted


_PROPERTIES: dict[Callable[[Any], object], FieldMeaning] = {}


def measure(
    path: str, *, title: str, zh: str, about: str = "", most: int | None = None, one: bool = False,
    opened: tuple[NestedTable, ...] = (), shown: Callable[[Any], bool] = lambda row: True,
) -> Callable[[type[T]], type[T]]:  # fmt: skip
    """Declare a dataclass as a kind of row of the report at `path`, such as `input.fetches`."""

    def declared(row: type[T]) -> type[T]:
        _DECLARED[row] = Declared(
            row=row, path=path, title=title, zh=zh, about=about, most=most, one=one, opened=opened, shown=shown
        )
        return row

    return declared


_FAMILIES = (
    "steps", "totals", "step_trace_time", "critical_path", "critical_path_rivals", "critical_path_stretches",
    "idle_stretches", "overlap", "input", "host", "code", "memory", "compute", "top", "communication", "rank_waits",
    "waits", "links", "pipeline", "pipeline_passes", "pipeline_boxes", "balance", "balance_operators",
    "rank_matrix", "streams", "clocks",
)  # fmt: skip
"""Blocks of the report in reading order; blocks that are not listed come after these."""


def declared() -> Mapping[type, Declared]:
    """Every kind of row that was declared so far, in the order of the report, whichever module was imported first."""
    return dict(sorted(_DECLARED.items(), key=lambda item: _place(item[1].path)))


def _place(path: str) -> tuple[int, str]:
    family = path.partition(".")[0]
    return _FAMILIES.index(family) if family in _FAMILIES else len(_FAMILIES), path


@cache
def columns_of(row: Any) -> tuple[Column, ...]:
    """The columns of a dataclass: fields with a meaning, then properties with a meaning."""
    hints = typing.get_type_hints(row)
    found = [
        _column(one.name, hints[one.name], one.metadata[_KEY])
        for one in dataclasses.fields(row)
        if _KEY in one.metadata and one.metadata[_KEY].key != "-"
    ]
    for name in dir(row):
        getter = getattr(row, name)
        if isinstance(getter, property) and getter.fget in _PROPERTIES:
            found.append(_column(name, typing.get_type_hints(getter.fget).get("return"), _PROPERTIES[getter.fget]))
    return tuple(found)


def _column(name: str, hint: Any, said: FieldMeaning) -> Column:
    bare, nullable = _without_none(hint)
    inner = _inner(bare)
    row = next((one for one in (bare, inner) if dataclasses.is_dataclass(one)), None)
    kind = said.kind or _kind(name, bare, row, said.keys)
    return Column(
        name=name, key=said.key or _key(name, kind), kind=kind, meaning=said.meaning, title=said.title, zh=said.zh,
        json_type=_json_type(kind, bare, inner) + (" or null" if nullable else ""), of=said.of,
        row=row if isinstance(row, type) else None, keys=said.keys, prefix=said.prefix,
    )  # fmt: skip


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        others = [one for one in typing.get_args(hint) if one is not type(None)]
        return (others[0] if len(others) == 1 else hint), type(None) in typing.get_args(hint)
    return hint, False


def _inner(hint: Any) -> Any:
    """The type of the items of a tuple."""
    return _without_none(typing.get_args(hint)[0])[0] if typing.get_origin(hint) is tuple else None


_PLAIN: dict[Any, Kind] = {bool: "flag", int: "count", float: "number", str: "name"}


def _kind(name: str, bare: Any, row: object, keys: tuple[str, ...]) -> Kind:
    if row is not None or keys:
        return "rows"
    if bare is int and name.endswith("_at_ns"):
        return "moment"
    if bare in (int, float) and (name == "ns" or name.endswith("_ns")):
        return "ns"
    if bare is int and (name == "bytes" or name.endswith("_bytes")):
        return "bytes"
    if bare is float and name.endswith("share"):
        return "share"
    if typing.get_origin(bare) is Literal:
        return "word"
    return _PLAIN.get(bare, "list")


def _key(name: str, kind: Kind) -> str:
    """The name of a field in JSON: durations are in milliseconds there, and their names end in `_ms`."""
    return f"{name[:-2]}{_WRITTEN[kind]}" if kind in _WRITTEN and name.endswith("ns") else name


_WRITTEN: dict[Kind, str] = {"ns": "ms", "us": "us"}
_TYPES: dict[Kind, str] = {
    "ns": "number", "us": "number", "moment": "int", "bytes": "int", "count": "int", "number": "number",
    "share": "number", "chance": "number", "name": "text", "word": "text", "file": "text",
    "flag": "true or false", "rows": "list",
}  # fmt: skip


def _json_type(kind: Kind, bare: Any, inner: Any) -> str:
    if kind == "rows" and dataclasses.is_dataclass(bare):
        return "object"
    if kind != "list":
        return _TYPES[kind]
    return f"list of {_TYPES[_PLAIN.get(inner, 'name')]}"


def spread_out(columns: tuple[Column, ...], prefix: str = "") -> Iterator[tuple[Column, str]]:
    """The columns of a row; a nested row with a prefix is replaced by its own columns, with the prefix."""
    for one in columns:
        if one.prefix is not None and one.row is not None:
            yield from spread_out(columns_of(one.row), prefix + one.prefix)
        else:
            yield one, prefix
