"""Counterparts on Ascend of CUDA's libraries, environment variables and torch APIs; each with its source.

The facts are tables in this folder: `libraries.csv`, `settings.csv`, `ascend_api_support.csv` (made by
`tools/extract_ascend_apis.py`) and `sources.csv`, which explains the keys of sources.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from hermes.knowledge.migration.advice import Advice

VERSIONS = ("2.7.1", "2.11.0", "2.12.0", "2.13.0")
"""The torch versions for which the tables list APIs."""
CHIPS = ("A2", "A3", "950")
"""The families of Ascend chips for which the tables list APIs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A Python library. `status` is works, port (another package replaces it), change (other calls do), or none."""

    module: str
    packages: Sequence[str]
    status: str
    counterpart: str
    todo: Advice
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An environment variable, a command's flag, or a command of NVIDIA's, with its counterpart on Ascend.

    `same_value` says whether the counterpart takes the same value: then both can be set.
    """

    name: str
    kind: str
    counterpart: str
    same_value: bool
    todo: Advice
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The support of one torch API in one version. Empty `types` means that no limit of types is known."""

    api: str
    chips: frozenset[str]
    argument: str
    types: frozenset[str]
    types_not_on_950: frozenset[str]
    types_also_on_a3: frozenset[str]
    marks: frozenset[str]

    def types_on(self, chip: str) -> frozenset[str]:
        """The data types that the API accepts on a chip; empty if no limit is known."""
        if chip == "950":
            return self.types - self.types_not_on_950
        return self.types | self.types_also_on_a3 if chip == "A3" else self.types


@cache
def libraries() -> Mapping[str, Library]:
    """Libraries by the name under which Python imports them."""
    return {
        row["module"]: Library(
            module=row["module"], packages=row["packages"].split(), status=row["status"],
            counterpart=row["counterpart"], todo=Advice(row["todo"]), source=sources()[row["source"]],
        )
        for row in _rows("libraries.csv")
    }  # fmt: skip


@cache
def packages() -> Mapping[str, Library]:
    """Libraries by the name under which they are installed, in lower case with dashes."""
    return {package: library for library in libraries().values() for package in library.packages}


@cache
def settings() -> Mapping[str, Setting]:
    """Environment variables, flags and commands by name."""
    return {
        row["name"]: Setting(
            name=row["name"], kind=row["kind"], counterpart=row["counterpart"], same_value=row["same_value"] == "yes",
            todo=Advice(row["todo"]), source=sources()[row["source"]],
        )
        for row in _rows("settings.csv")
    }  # fmt: skip


@cache
def sources() -> Mapping[str, str]:
    """The address of each source of facts, by key."""
    return {row["key"]: row["address"] for row in _rows("sources.csv")}


@cache
def support(version: str) -> Mapping[str, Support]:
    """The support table for a torch version: each API that the documentation lists, by full name."""
    if version not in VERSIONS:
        raise ValueError(f"no support table for torch {version}; there are {', '.join(VERSIONS)}")
    return {row["api"]: _support(row) for row in _rows("ascend_api_support.csv") if version in row["versions"].split()}


def _support(row: Mapping[str, str]) -> Support:
    return Support(
        api=row["api"], chips=frozenset(row["chips"].split()), argument=row["argument"],
        types=frozenset(row["types"].split()), types_not_on_950=frozenset(row["types_not_on_950"].split()),
        types_also_on_a3=frozenset(row["types_also_on_a3"].split()), marks=frozenset(row["marks"].split()),
    )  # fmt: skip


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())
