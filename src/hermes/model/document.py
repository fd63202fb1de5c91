"""The envelope of every document: what was read, what could not be seen, what was found, and the document's own parts.

A wing makes a `Document`; `hermes.report` draws it on a terminal, as a page, as a spreadsheet and as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes.base.errors import Diagnostic
from hermes.base.message import Text
from hermes.model.declare import Kind
from hermes.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input: its path, what it is in this document (`golden`, `target`, `project`), and what is known of it.

    `facts` are plain JSON values.
    """

    path: str
    role: str
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: its key in JSON, its title, and what its values are (see `hermes.model.declare.Kind`)."""

    key: str
    title: Text
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows by columns; each row has a value for each column, None where nothing is known.

    `total` is how many rows there are, where `rows` are a part of them. `marked` is the row that a face shows first.
    """

    key: str
    title: Text
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[object]]
    total: int | None = None
    marked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a tree: its name, a value beside it, how much that matters, and what lies below."""

    name: str
    value: str = ""
    level: str = ""
    below: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree of names, such as the modules of a model. `marked` is the path of names to what a face shows open."""

    key: str
    title: Text
    roots: tuple[Node, ...]
    marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Text as it is, such as a line of the user's code, the end of an output, or a diff (lines begin with + and -)."""

    key: str
    title: Text
    text: str
    diff: bool = False


Part = Table | Tree | Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a wing has to say. `answer` is what to read first; `coverage` says what could not be seen.

    `facts` are the document's own plain JSON values, such as counts and verdicts in words of a program. `parts` are
    what faces draw behind the findings; JSON holds them by their keys.
    """

    schema: str
    inputs: tuple[Source, ...]
    answer: Text
    coverage: tuple[Diagnostic, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
