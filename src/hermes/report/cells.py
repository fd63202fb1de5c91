"""Cells, columns and tables of the report: what is written, and the exact value behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hermes.report.format import NOT_MEASURED, clip, counted, duration, fraction, microseconds, number, share, size

LIMIT = 200
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
    """A table to draw; `more` says how many rows were left out."""

    key: str
    title: str
    about: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: int

    @property
    def rest(self) -> str:
        """What the page does not show, in words."""
        return f"{counted(self.more, 'more row')} in report.json" if self.more else ""


def table(key: str, title: str, about: str, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> Table:
    """A table of the first `LIMIT` rows."""
    return Table(
        key=key,
        title=title,
        about=about,
        headings=tuple(Heading(title=c.title, unit=c.unit, words=c.words) for c in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows[:LIMIT]),
        more=max(len(rows) - LIMIT, 0),
    )


def name(text: str) -> Cell:
    """A name from the profile, which may be long."""
    return Cell(text=clip(text, NAME_LIMIT), kind="name")


def words(text: str) -> Cell:
    """Our own words."""
    return Cell(text=clip(text, NAME_LIMIT), kind="words")


def absent() -> Cell:
    """What was not measured."""
    return Cell(text=NOT_MEASURED, kind="absent")


def time(ns: int | None, whole: int = 0) -> Cell:
    """A duration, with its share of `whole` where that is given."""
    return absent() if ns is None else Cell(text=duration(ns), value=str(ns), note=share(ns, whole))


def micro(ns: int | None) -> Cell:
    """A time in microseconds."""
    return absent() if ns is None else Cell(text=microseconds(ns), value=microseconds(ns))


def known(text: str | None) -> Cell:
    """A name, or "not recorded"."""
    return Cell(text="not recorded", kind="absent") if text is None else name(text)


def whole(value: int | None) -> Cell:
    """A whole number."""
    return Cell(text="none", kind="absent") if value is None else Cell(text=str(value), value=str(value))


def share_of(value: float) -> Cell:
    """A fraction of one as per cent."""
    text = fraction(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def decimal(value: float) -> Cell:
    """A number to three digits."""
    text = number(value)
    return absent() if text == NOT_MEASURED else Cell(text=text, value=repr(value))


def amount(count: int | None) -> Cell:
    """A number of bytes."""
    return absent() if count is None else Cell(text=size(count), value=str(count))


def measured(value: float | None) -> Cell:
    """A number to three digits, or that it was not measured."""
    return absent() if value is None else decimal(value)


def part(value: float | None) -> Cell:
    """A fraction of one as per cent, or that it was not measured."""
    return absent() if value is None else share_of(value)
