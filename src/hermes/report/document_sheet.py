"""Writes a document as a workbook: its answer and coverage, its findings, and a sheet for each table."""

from __future__ import annotations

from hermes.base.message import Message, Text
from hermes.base.xlsx import Cell, workbook
from hermes.model.declare import Kind
from hermes.model.document import CodeText, Document, Table, Tree
from hermes.report.document_json import value_of
from hermes.report.findings_sheet import findings_rows
from hermes.report.format import harmless_line
from hermes.report.localized_texts import Tell, teller
from hermes.report.sheet_cells import cell, sheet_name
from hermes.report.value_labels import Label

_UNITS: dict[Kind, str] = {"ns": "ns", "us": "us", "moment": "ns", "bytes": "bytes"}


def document_sheets(document: Document, language: str = "en") -> bytes:
    """The bytes of the workbook of a document, in English (`en`) or Chinese (`zh`)."""
    tell = teller(language)
    sheets: dict[str, list[list[Cell]]] = {}
    sheets[_name(Label.ANSWER.message, sheets, tell)] = _first(document, tell)
    sheets[_name(Label.FINDINGS.message, sheets, tell)] = findings_rows(document.findings, tell)
    for part in document.parts:
        if isinstance(part, Table):
            sheets[_name(part.title, sheets, tell)] = _table(part, tell)
    return workbook({name: [[_shown(one) for one in row] for row in rows] for name, rows in sheets.items()})


def _name(title: Text, taken: dict[str, list[list[Cell]]], tell: Tell) -> str:
    return sheet_name(tell(title), taken)


def _first(document: Document, tell: Tell) -> list[list[Cell]]:
    """The rows of the first sheet: the answer, the inputs, the missing data, and the plain values."""
    rows: list[list[Cell]] = [[tell(document.answer)]]
    rows += [[one.role, one.path] for one in document.inputs]
    rows += [[one.where, tell(one.message), tell(one.lost)] for one in document.coverage]
    rows += [[name, cell(value_of(value))] for name, value in document.facts.items()]
    rows += [[tell(part.title), part.text[:32_000]] for part in document.parts if isinstance(part, CodeText)]
    rows += [[tell(part.title)] for part in document.parts if isinstance(part, Tree) and not part.roots]
    return rows


def _table(part: Table, tell: Tell) -> list[list[Cell]]:
    heads: list[Cell] = []
    for column in part.columns:
        unit = _UNITS.get(column.kind, "")
        heads.append(f"{tell(column.title)} ({unit})" if unit else tell(column.title))
    return [heads, *([_value(one, tell) for one in row] for row in part.rows)]


def _value(value: object, tell: Tell) -> Cell:
    return tell(value) if isinstance(value, Message) else cell(value_of(value))


def _shown(one: Cell) -> Cell:
    return harmless_line(one) if isinstance(one, str) else one
