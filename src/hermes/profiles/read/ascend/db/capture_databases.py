"""Reads the databases of one capture as one: names resolved, keys made unique, unreadable rows counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import polars as pl

from hermes.base.errors import Diagnostic
from hermes.base.message import Message
from hermes.base.units import INT64_MAX
from hermes.knowledge.ascend_codes import NONE_32
from hermes.model.tables import TABLES
from hermes.profiles.read import messages
from hermes.profiles.read.ascend.db.sqlite_database import TYPES, Kind
from hermes.profiles.read.table_sink import Sink

# Ids of two databases of one capture must not collide; the writers count ids from 0.
_KEYS_OF_A_DATABASE = 1 << 40
_TID = 1 << 32
_NOTHING = ("N/A", "NULL", "INVALID")
_DAY_NS = 86_400 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedColumns:
    """What to read from a table.

    `names` are columns that hold ids of STRING_IDS and are returned as text. `keys` are ids that are unique only within
    one database. A row without a readable value in a `required` column is dropped and counted in a note.
    """

    table: str
    ints: tuple[str, ...] = ()
    reals: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def stored(self) -> dict[str, Kind]:
        """The stored type of each column."""
        kinds: dict[str, Kind] = dict.fromkeys((*self.keys, *self.ints, *self.names), "int")
        kinds.update(dict.fromkeys(self.reals, "real"))
        kinds.update(dict.fromkeys(self.texts, "text"))
        return kinds

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The type of each returned column."""
        kinds = {name: TYPES[kind] for name, kind in self.stored.items()}
        return kinds | dict.fromkeys(self.names, pl.String())


class Tables(Protocol):
    """A database, or tables that are held in memory."""

    path: Path

    @property
    def tables(self) -> frozenset[str]:
        """The names of its tables."""

    def columns(self, table: str) -> frozenset[str]:
        """The columns of a table; empty if there is no such table."""

    def fetch(self, table: str, columns: Mapping[str, Kind]) -> pl.DataFrame:
        """The rows of a table with exactly these columns."""


class Profile:
    """All databases of one capture, read as one."""

    def __init__(self, databases: Sequence[Tables], sink: Sink) -> None:
        self.databases = tuple(databases)
        self.sink = sink

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of the tables that any database of the capture has."""
        return frozenset().union(*(database.tables for database in self.databases))

    @property
    def has_names(self) -> bool:
        """Whether any database has readable STRING_IDS."""
        return any(strings.height for strings in self._strings)

    def columns(self, table: str) -> frozenset[str]:
        """The columns that the table has in any database."""
        return frozenset().union(*(database.columns(table) for database in self.databases))

    def read(self, wanted: WantedColumns) -> pl.DataFrame:
        """The rows of a table of all databases; empty if none has the table."""
        parts = [
            self._part(place, database, wanted)
            for place, database in enumerate(self.databases)
            if wanted.table in database.tables
        ]
        return pl.concat(parts) if parts else pl.DataFrame(schema=wanted.schema)

    def enum(self, table: str, known: dict[int, str]) -> dict[int, str]:
        """The names of numbers from the file's own table; `known` only if the file has no such table."""
        rows = self.read(WantedColumns(table=table, ints=("id",), texts=("name",))).drop_nulls()
        return dict(rows.iter_rows()) or known

    def write(self, name: str, rows: pl.DataFrame) -> None:
        """Write a table, without rows that lack values which the schema requires; a note counts those rows."""
        demanded = [column.name for column in TABLES[name].columns if not column.null and column.name != "rank"]
        whole = _without_nulls(rows, demanded)
        if lost := rows.height - whole.height:
            self._note(messages.rows_lack(n=lost, table=name), lost=messages.lost_rows(n=lost, table=name))
        self.sink.frame(name, whole)

    def spans(self, rows: pl.DataFrame, table: str) -> pl.DataFrame:
        """The rows with `start_ns`, `dur_ns` from `startNs`, `endNs`; rows without a possible start or end are dropped.

        No capture lasts a day: a row that long, or that far from the others, is damaged.
        """
        start, end = rows["startNs"], rows["endNs"]
        middle = start.quantile(0.5, interpolation="nearest")
        first = max(int(middle or 0) - _DAY_NS, 0)
        sound = (start > first) & (end >= start) & (end < min(first + 3 * _DAY_NS, INT64_MAX))
        timed = rows if sound.all() else rows.filter(sound)
        if lost := rows.height - timed.height:
            self._note(messages.impossible_times(n=lost, table=table), lost=messages.lost_rows(n=lost, table=table))
        return timed.with_columns(
            pl.col("startNs").alias("start_ns"), (pl.col("endNs") - pl.col("startNs")).alias("dur_ns")
        ).drop("startNs", "endNs")

    def _part(self, place: int, database: Tables, wanted: WantedColumns) -> pl.DataFrame:
        needs_names = set(wanted.names) & set(wanted.required)
        strings = self._strings[place]
        if needs_names and strings.is_empty():
            self._note(
                messages.no_strings(table=wanted.table),
                where=str(database.path),
                lost=messages.lost_table(table=wanted.table),
            )
            return pl.DataFrame(schema=wanted.schema)
        rows = database.fetch(wanted.table, wanted.stored)
        whole = _without_nulls(rows, wanted.required)
        if lost := rows.height - whole.height:
            self._note(
                messages.rows_unreadable(n=lost, table=wanted.table, columns=wanted.required),
                where=str(database.path),
                lost=messages.lost_rows(n=lost, table=wanted.table),
            )
        moved = [pl.col(key) + place * _KEYS_OF_A_DATABASE for key in wanted.keys]
        return self._named(whole.with_columns(moved), wanted, strings, database)

    def _named(
        self, rows: pl.DataFrame, wanted: WantedColumns, strings: pl.DataFrame, database: Tables
    ) -> pl.DataFrame:
        """The rows with ids replaced by names, one column at a time, since the frame may be large."""
        for name in wanted.names:
            ids = rows.select(pl.col(name).alias("id"))
            texts = ids.join(strings, on="id", how="left", maintain_order="left")
            if name in wanted.required and (count := texts["value"].null_count()):
                self._note(
                    messages.names_unknown(n=count, table=wanted.table, column=name),
                    where=str(database.path),
                    lost=messages.lost_cells(n=count, column=name, table=wanted.table),
                )
                texts = texts.with_columns(pl.col("value").fill_null(pl.format("#{}", "id")))
            rows = rows.with_columns(texts["value"].alias(name))
        return rows.select(list(wanted.schema))

    @cached_property
    def _strings(self) -> tuple[pl.DataFrame, ...]:
        """STRING_IDS of each database; an empty text counts as a text there."""
        kinds: dict[str, Kind] = {"id": "int", "value": "text"}
        return tuple(
            database.fetch("STRING_IDS", kinds)
            .drop_nulls("id")
            .unique("id", keep="first", maintain_order=True)
            .with_columns(pl.col("value").fill_null(""))
            for database in self.databases
        )

    def _note(self, message: Message, *, lost: Message, where: str = "") -> None:
        place = where or ", ".join(str(database.path) for database in self.databases)
        note = Diagnostic(level="degraded", message=message, where=place, lost=lost)
        if note not in self.sink.notes:
            self.sink.note("degraded", message, where=place, lost=lost)


def _without_nulls(rows: pl.DataFrame, demanded: Sequence[str]) -> pl.DataFrame:
    """The rows with a value in these columns; no copy if all rows have one."""
    bad = [name for name in demanded if rows[name].null_count()]
    return rows.drop_nulls(bad) if bad else rows


def text_or_null(column: str) -> pl.Expr:
    """The text of a column, null where the profiler wrote that there is none."""
    text = pl.col(column)
    return pl.when((text != "") & ~text.is_in(_NOTHING)).then(text)


def number_or_null(column: str) -> pl.Expr:
    """The number of a column, null where the profiler wrote its largest unsigned number for "none"."""
    return pl.when(pl.col(column) != NONE_32).then(pl.col(column))


def thread() -> tuple[pl.Expr, pl.Expr]:
    """`pid` and `tid` of a `globalTid`."""
    both = pl.col("globalTid")
    return (both // _TID).alias("pid"), (both % _TID).alias("tid")


def shapes(column: str) -> pl.Expr:
    """Lists of tensors with `;` between tensors: the file puts them into quotes or breaks the lines."""
    plain = text_or_null(column).str.strip_chars('"').str.replace_all("\r\n", "", literal=True)
    return pl.when(plain != "").then(plain)
