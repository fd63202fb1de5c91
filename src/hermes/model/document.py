"""The common form of every output document: its inputs, coverage, findings, tables and trees.

A part of Hermes makes a `Document`; `hermes.report` draws it on a terminal, as a page, as a spreadsheet and as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes.base.errors import Diagnostic
from hermes.base.message import Text
from hermes.model.declare import Kind
from hermes.model.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInput:
    """One input of a document: its path, its role (`golden`, `target`, `project`), and the facts known of the input.

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
    """A table of a document; each row has a value for each column, None where nothing is known.

    `total` is the number of all rows, where `rows` are only a part. `marked` is the row that a report shows first.
    """

    key: str
    title: Text
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[object]]
    total: int | None = None
    marked: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A node of a tree: its name, a value, how much the value matters, and the nodes below."""

    name: str
    value: str = ""
    level: str = ""
    below: tuple[TreeNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree of names, such as the modules of a model.

    `marked` is the path of names down to the node that is shown open.
    """

    key: str
    title: Text
    roots: tuple[TreeNode, ...]
    marked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeText:
    """Text shown verbatim, such as a line of the user's code, an output's end, or a diff (lines begin with + and -)."""

    key: str
    title: Text
    text: str
    diff: bool = False


Part = Table | Tree | CodeText


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The result of one command. `answer` is the first sentence to read; `coverage` says which data was missing.

    `facts` are the document's own plain JSON values, such as counts and verdicts in words of a program. `parts` are the
    tables, trees and texts that reports draw below the findings; JSON holds the parts by their keys.
    """

    schema: str
    inputs: tuple[DocumentInput, ...]
    answer: Text
    coverage: tuple[Diagnostic, ...] = ()
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
