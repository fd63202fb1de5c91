"""Cells, columns and tables of the report: text for display, with the exact value for sorting and copying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hermes.base.message import Message
from hermes.report.format import (
    NOT_MEASURED,
    bytes_text,
    clip,
    duration,
    fraction,
    microseconds,
    number,
    share,
    short_groups,
)
from hermes.report.value_labels import rows_left

LIMIT = 200
"""The most rows of a table that are in the page's HTML."""
HELD = 1_000
"""The most rows of a table that the page holds for its script."""
NAME_LIMIT = 2_000
_LONG = 25

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a table: the text to show, and the exact value (empty if the text is exact, or nothing measured)."""

    text: str
    value: str = ""
    note: str = ""
    kind: str = "number"
    href: str = ""
    """The link of the text: an address that Hermes made, never an address from the input."""

    @property
    def long(self) -> bool:
        """Whether the text may be shortened on a narrow screen or in a narrow column."""
        return self.kind == "name" and len(self.text) > _LONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[Row]):
    """A column of a table: its heading, the unit of the exact values, and the function that makes the cell of a row."""

    title: str
    cell: Callable[[Row], Cell]
    unit: str = ""
    words: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The heading of a table's column, as the page shows it."""

    title: str
    unit: str
    words: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table to draw: its first `HELD` rows; `more` says how many rows were left out."""

    key: str
    title: str
    about: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int
    file: str = "report.json"

    @property
    def written(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows that are in the page's HTML, whether its script runs or not."""
        return self.rows[:LIMIT]

    @property
    def rest(self) -> Message | None:
        """The message that says how many rows are not in the page's HTML; None if all are."""
        return self._left(self.more + len(self.rows) - len(self.written))

    @property
    def beyond(self) -> Message | None:
        """The message that says how many rows even the page's script does not have; None if it has all."""
        return self._left(self.more)

    def _left(self, rows: int) -> Message | None:
        return rows_left(n=rows, file=self.file or None) if rows else None


def table(key: str, title: str, about: str, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """Make a table of the rows; it keeps at most `HELD` rows."""
    return Table(
        key=key,
        title=title,
        about=about,
        headings=tuple(Heading(title=c.title, unit=c.unit, words=c.words) for c in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows[:HELD]),
        more=max(len(rows) - HELD, 0),
    )


def name(text: str) -> Cell:
    """A cell with text from a profile: a page may shorten the text, as for the long numbers of groups."""
    short = short_groups(text)
    return Cell(text=clip(short, NAME_LIMIT), value="" if short == text else text, kind="name")


def file(path: str | None) -> Cell:
    """A cell with the whole path of a file of this machine; on a page the cell links to the file."""
    if path is None:
        return absent()
    return Cell(text=clip(path, NAME_LIMIT), kind="name", href=Path(path).as_uri())


def words(text: str) -> Cell:
    """A cell with text of the report itself."""
    return Cell(text=clip(text, NAME_LIMIT), kind="words")


def absent() -> Cell:
    """A cell for a value that was not measured."""
    return Cell(text=NOT_MEASURED, kind="absent")


def time(ns: int | None, whole: int = 0) -> Cell:
    """A cell with a duration in nanoseconds, and its share of `whole` nanoseconds if given."""
    return absent() if ns is None else Cell(text=duration(ns), value=str(ns), note=share(ns, whole))


def micro(ns: int | None) -> Cell:
    """A cell with a duration in microseconds, written as in Ascend's files."""
    return absent() if ns is None else Cell(text=microseconds(ns), value=microseconds(ns))


def known_text_cell(text: str | None) -> Cell:
    """A cell with text from a profile; None gives "not recorded"."""
    return Cell(text="not recorded", kind="absent") if text is None else name(text)


def whole_number_cell(value: int | None) -> Cell:
    """A cell with a whole number; None gives "none"."""
    return Cell(text="none", kind="absent") if value is None else Cell(text=str(value), value=str(value))


def fraction_cell(value: float | None) -> Cell:
    """A cell with a share between 0 and 1; None is not measured."""
    text = NOT_MEASURED if value is None else fraction(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def decimal(value: float | None) -> Cell:
    """A cell with a number to three digits; None is not measured."""
    text = number(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def count(value: int | None) -> Cell:
    """A cell with a whole number; None is not measured."""
    return absent() if value is None else whole_number_cell(value)


def size_cell(value: int | None) -> Cell:
    """A cell with a size in bytes; None is not measured."""
    return absent() if value is None else Cell(text=bytes_text(value), value=str(value))
