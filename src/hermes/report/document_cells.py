"""Makes the cells of a document's tables, and chooses which rows are shown."""

from __future__ import annotations

from collections.abc import Callable

from hermes.base.message import Message, Text, Word
from hermes.base.say import say
from hermes.model.declare import Kind
from hermes.model.document import Column, Table
from hermes.report import table_cells
from hermes.report.table_cells import HELD, Cell, Heading
from hermes.report.table_columns import UNITS, WORDS, WRITERS
from hermes.report.value_labels import Label

Tell = Callable[[Text], str]


def cell_of(column: Column, value: object, tell: Tell = say) -> Cell:
    """A value of the column as a cell."""
    if value is None:
        return Cell(text="", kind="words")
    if isinstance(value, (Message, Word)):
        return table_cells.words(tell(value.message if isinstance(value, Word) else value))
    if column.kind == "ns" and isinstance(value, int):
        return table_cells.time(value)
    if column.kind == "flag":
        return table_cells.words(tell((Label.YES if value else Label.NO).message))
    if column.kind == "word":
        return table_cells.words(tell(str(value)))
    if column.kind in ("name", "list"):
        return table_cells.name(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return WRITERS[column.kind](value)


def numeric(kind: Kind) -> bool:
    """Whether values of this kind are numbers, which are aligned to the right."""
    return kind not in WORDS


def shown_rows(part: Table, most: int) -> range:
    """The indices of the at most `most` rows that are shown: around the marked row, else the first rows."""
    first = max(min((part.marked or 0) - most // 4, len(part.rows) - most), 0)
    return range(first, min(first + most, len(part.rows)))


def table_of(part: Table, tell: Tell) -> table_cells.Table:
    """The table as the report's pages draw it; rows beyond the limit are in JSON alone."""
    rows = shown_rows(part, HELD)
    return table_cells.Table(
        key=part.key, title=tell(part.title), about="",
        headings=tuple(
            Heading(title=tell(one.title), unit=UNITS.get(one.kind, ""), words=not numeric(one.kind))
            for one in part.columns
        ),
        rows=tuple(
            tuple(cell_of(column, value, tell) for column, value in zip(part.columns, part.rows[at], strict=True))
            for at in rows
        ),
        more=max(part.total or 0, len(part.rows)) - len(rows), file="",
    )  # fmt: skip
