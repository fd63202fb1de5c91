"""Writes a document as JSON: the envelope that all documents share, then facts, tables, trees and code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermes.base.errors import Diagnostic
from hermes.base.message import Message, Word
from hermes.model.declare import Kind
from hermes.model.document import CodeText, Column, Document, DocumentInput, Table, TreeNode
from hermes.model.finding import Finding
from hermes.report.findings_json import finding_document, text_document
from hermes.report.json_lines import dumps
from hermes.report.json_values import clear_json_values, finite, ms, plain_value, text_of
from hermes.version import __version__


def envelope(
    schema: str, *, inputs: Sequence[Mapping[str, object]], coverage: Mapping[str, object], findings: Sequence[Finding]
) -> dict[str, object]:
    """The values with which every document begins, in their order."""
    return {
        "schema": schema,
        "tool": {"name": "hermes", "version": text_of(__version__)},
        "inputs": [dict(one) for one in inputs],
        "coverage": dict(coverage),
        "findings": [finding_document(one) for one in findings],
    }


def coverage_of(notes: Sequence[Diagnostic]) -> dict[str, object]:
    """The coverage block of a document whose only missing data is described by notes."""
    return {"diagnostics": [clear_json_values(note.document()) for note in notes]}


def document_values(document: Document) -> dict[str, object]:
    """The document as JSON values: milliseconds give back the nanosecond by `round(ms * 1e6)`, None is null.

    Raises `ValueError` if two parts of the document have the same name.
    """
    made = envelope(
        document.schema, inputs=[_source(one) for one in document.inputs], coverage=coverage_of(document.coverage),
        findings=document.findings,
    )  # fmt: skip
    _add(made, {"answer": text_document(document.answer)})
    _add(made, {name: value_of(one) for name, one in document.facts.items()})
    for part in document.parts:
        if isinstance(part, Table):
            _add(made, _table(part))
        else:
            _add(
                made,
                {part.key: text_of(part.text) if isinstance(part, CodeText) else [_node(one) for one in part.roots]},
            )
    return made


def document_json(document: Document) -> str:
    """The document as JSON text, one row of a table a line; equal documents give equal bytes in UTF-8."""
    return dumps(document_values(document))


def _add(made: dict[str, object], more: dict[str, object]) -> None:
    if twice := made.keys() & more.keys():
        raise ValueError(f"a document has two parts named {', '.join(sorted(twice))}")
    made |= more


def _source(one: DocumentInput) -> dict[str, object]:
    return {
        "path": text_of(one.path),
        "role": text_of(one.role),
        **{name: value_of(of) for name, of in one.facts.items()},
    }


def _table(part: Table) -> dict[str, object]:
    rows = [
        {column.key: _cell(column, value) for column, value in zip(part.columns, row, strict=True)}
        for row in part.rows
    ]  # fmt: skip
    left = part.total is not None and part.total > len(rows)
    return {part.key: rows, **({f"{part.key}_total": part.total} if left else {})}


def _cell(column: Column, value: object) -> object:
    kind: Kind = column.kind
    if kind == "ns" and column.key.endswith("_ms") and isinstance(value, int):
        return ms(value)
    return value_of(value)


def _node(node: TreeNode) -> dict[str, object]:
    return {
        "name": text_of(node.name), "value": text_of(node.value), "level": text_of(node.level),
        "below": [_node(one) for one in node.below],
    }  # fmt: skip


def value_of(value: Any) -> object:
    """A plain value of a document: a word as its name, a message with its arguments, a non-finite number as None."""
    if isinstance(value, Word):
        return value.value
    if isinstance(value, Message):
        return text_document(value)
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, dict):
        return {text_of(str(name)): value_of(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [value_of(one) for one in value]
    return plain_value(value)
