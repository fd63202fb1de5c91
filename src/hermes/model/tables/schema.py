"""The types of a table declaration, and the schemas derived from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from hermes.base.errors import QueryError
from hermes.base.message import Name, message

Kind = Literal["int", "text", "real", "flag"]

_POLARS: dict[Kind, pl.DataType] = {"int": pl.Int64(), "text": pl.String(), "real": pl.Float64(), "flag": pl.Boolean()}
_DUCKDB: dict[Kind, str] = {"int": "BIGINT", "text": "VARCHAR", "real": "DOUBLE", "flag": "BOOLEAN"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: `int` is 64 bits, `text` UTF-8, `real` a double (never a time), `flag` a boolean.

    `null` says what a missing value means; a column without `null` has no missing values.
    """

    name: str
    kind: Kind
    doc: str
    unit: str = ""
    null: str = ""

    @property
    def sql_type(self) -> str:
        """The DuckDB type of the column."""
        return _DUCKDB[self.kind]


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what a row is, and its columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)


def schema_of(table: Table) -> dict[str, pl.DataType]:
    """The Polars schema of the table, in column order."""
    return {column.name: _POLARS[column.kind] for column in table.columns}


def empty(table: Table) -> pl.DataFrame:
    """The table without rows, with its columns and types."""
    return pl.DataFrame(schema=schema_of(table))


@message("model.no_table")
def _no_table(*, name: Name) -> None:
    """The message that no table has this name."""


@message("model.do.tables")
def _do_tables(*, tables: Name) -> None:
    """The hint that lists the tables."""


def lookup(tables: Mapping[str, Table], name: str) -> Table:
    """The table named `name`; raises a `QueryError` that lists the tables if there is no such table."""
    try:
        return tables[name]
    except KeyError:
        raise QueryError(_no_table(name=repr(name)), hint=_do_tables(tables=", ".join(tables))) from None
