"""Cells, columns and tables of the report: written text, each with the exact value that it sorts and copies by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hermes.base.message import Message
from hermes.report.format import (
    NOT_MEASURED,
    clip,
    duration,
    fraction,
    microseconds,
    number,
    share,
    short_groups,
    size,
)
from hermes.report.labels import rows_left

LIMIT = 200
"""Rows of a table that the page is written with."""
HELD = 1_000
"""Rows of a table that the page holds for its script."""
NAME_LIMIT = 2_000
_LONG = 25

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is shown, and the exact value behind it (empty when it is the text or nothing was measured)."""

    text: str
    value: str = ""
    note: str = ""
    kind: str = "number"

    @property
    def long(self) -> bool:
        """Whether the text may be cut where it is shown, on a narrow screen or in a narrow column."""
        return self.kind == "name" and len(self.text) > _LONG


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[Row]):
    """A column: its heading, the unit of the exact values, and the cell of a row."""

    title: str
    cell: Callable[[Row], Cell]
    unit: str = ""
    words: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A column as the page shows it."""

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
        """The rows that the page is written with, whether its script runs or not."""
        return self.rows[:LIMIT]

    @property
    def rest(self) -> Message | None:
        """What the page is not written with."""
        return self._left(self.more + len(self.rows) - len(self.written))

    @property
    def beyond(self) -> Message | None:
        """What the page's script does not have either."""
        return self._left(self.more)

    def _left(self, rows: int) -> Message | None:
        return rows_left(n=rows, file=self.file or None) if rows else None


def table(key: str, title: str, about: str, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """The table of these rows; at most `HELD` of them are kept."""
    return Table(
        key=key,
        title=title,
        about=about,
        headings=tuple(Heading(title=c.title, unit=c.unit, words=c.words) for c in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows[:HELD]),
        more=max(len(rows) - HELD, 0),
    )


def name(text: str) -> Cell:
    """Text from a profile: it may be cut where it is shown, as long numbers of groups are."""
    short = short_groups(text)
    return Cell(text=clip(short, NAME_LIMIT), value="" if short == text else text, kind="name")


def words(text: str) -> Cell:
    """Text of the report itself."""
    return Cell(text=clip(text, NAME_LIMIT), kind="words")


def absent() -> Cell:
    """Nothing was measured."""
    return Cell(text=NOT_MEASURED, kind="absent")


def time(ns: int | None, whole: int = 0) -> Cell:
    """A duration, with its share of `whole` nanoseconds where that is given."""
    return absent() if ns is None else Cell(text=duration(ns), value=str(ns), note=share(ns, whole))


def micro(ns: int | None) -> Cell:
    """A duration in microseconds, as Ascend's files have it."""
    return absent() if ns is None else Cell(text=microseconds(ns), value=microseconds(ns))


def known(text: str | None) -> Cell:
    """Text from a profile, or that it was not recorded."""
    return Cell(text="not recorded", kind="absent") if text is None else name(text)


def whole(value: int | None) -> Cell:
    """A whole number; None is none."""
    return Cell(text="none", kind="absent") if value is None else Cell(text=str(value), value=str(value))


def fraction_cell(value: float | None) -> Cell:
    """A share of one; None is not measured."""
    text = NOT_MEASURED if value is None else fraction(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def decimal(value: float | None) -> Cell:
    """A number to three digits; None is not measured."""
    text = number(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def count(value: int | None) -> Cell:
    """A whole number; None is not measured."""
    return absent() if value is None else whole(value)


def size_cell(value: int | None) -> Cell:
    """Bytes; None is not measured."""
    return absent() if value is None else Cell(text=size(value), value=str(value))
