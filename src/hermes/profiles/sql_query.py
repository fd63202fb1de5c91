"""Runs SQL with DuckDB on the cached tables of an input."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import polars as pl

from hermes.base.errors import QueryError
from hermes.base.limits import QUERY_BYTES
from hermes.model.tables import TABLES
from hermes.profiles import messages
from hermes.profiles.load import Loaded
from hermes.profiles.read.query import literal
from hermes.store.database import connect

_ALLOWED = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI, duckdb.StatementType.CREATE)
"""Statement types that a query may have: PIVOT arrives as `MULTI`; tables that CREATE makes live in memory."""


@contextmanager
def database(loaded: Loaded) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with one view per table over all ranks; the connection can read only these tables' files."""
    con = connect()
    try:
        for name in TABLES:
            listed = ", ".join(literal(rank.folder / f"{name}.parquet") for rank in loaded.ranks)
            con.execute(f'CREATE VIEW "{name}" AS SELECT * FROM read_parquet([{listed}])')
        folders = ", ".join(literal(rank.folder) for rank in loaded.ranks)
        con.execute(f"SET allowed_directories = [{folders}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET lock_configuration = true")
        yield con
    finally:
        con.close()


def query(loaded: Loaded, sql: str, *, most: int | None = None, seconds: float | None = None) -> pl.DataFrame:
    """The rows of one SQL query; raises `QueryError` with the database's own message.

    `most` limits the number of rows. A query that takes longer than `seconds` is ended.
    """
    with database(loaded) as con, _ended(con, seconds):
        try:
            _refuse_writing(con, sql)
            relation = con.sql(sql)
            if relation is not None and most is not None:
                relation = relation.limit(most)
            rows: pl.DataFrame = relation.pl() if relation is not None else pl.DataFrame()
        except duckdb.InterruptException as late:
            raise QueryError(
                messages.query_too_long(seconds=str(seconds)), where="the query",
                hint=messages.DO_ASK_FOR_LESS,
            ) from late  # fmt: skip
        except duckdb.OutOfMemoryException as large:
            limit = QUERY_BYTES.exceeded("the query needs more memory", where="the query", lost="its result")
            raise QueryError(limit.what, where=limit.where, lost=limit.lost, hint=limit.hint) from large
        except duckdb.Error as wrong:
            raise QueryError(
                str(wrong).strip(),
                where="the query",
                hint=messages.DO_SEE_SCHEMA,
            ) from wrong
    return rows


@contextmanager
def _ended(con: duckdb.DuckDBPyConnection, seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, con.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _refuse_writing(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse statements that write: `COPY … TO` could otherwise damage the cache, since its folders may be read."""
    for statement in con.extract_statements(sql):
        if statement.type not in _ALLOWED:
            raise QueryError(
                messages.statement_refused(statement=statement.type.name),
                where="the query",
                hint=messages.DO_SELECT,
            )


def table_sizes(loaded: Loaded) -> list[tuple[str, int, str]]:
    """For every table: its name, its rows over all ranks, and what a row means."""
    return [
        (
            name,
            sum(
                pl.scan_parquet(rank.folder / f"{name}.parquet").select(pl.len()).collect().item()
                for rank in loaded.ranks
            ),
            table.row,
        )
        for name, table in TABLES.items()
    ]
