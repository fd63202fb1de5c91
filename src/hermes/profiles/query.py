"""SQL over the cached tables of an input."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import polars as pl

from hermes.base.errors import QueryError
from hermes.base.limits import QUERY_BYTES
from hermes.model.tables import TABLES
from hermes.profiles.load import Loaded
from hermes.profiles.read.query import literal
from hermes.store.database import connect

_ALLOWED = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI, duckdb.StatementType.CREATE)
"""`MULTI` is how PIVOT comes; what CREATE makes lives in memory."""


@contextmanager
def database(loaded: Loaded) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with one view per table over all ranks, that can reach no file but those."""
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
    """The result of one query; raises `QueryError` with the database's own words.

    With `most`, at most so many of its rows; with `seconds`, what takes longer is ended.
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
                f"the query took longer than {seconds} seconds and was ended", where="the query",
                hint="ask for less: a rank, a step, or fewer rows; `hermes sql` has no such limit",
            ) from late  # fmt: skip
        except duckdb.OutOfMemoryException as large:
            limit = QUERY_BYTES.exceeded("the query needs more memory", where="the query", lost="its result")
            raise QueryError(limit.what, where=limit.where, lost=limit.lost, hint=limit.hint) from large
        except duckdb.Error as wrong:
            raise QueryError(
                str(wrong).strip(),
                where="the query",
                hint='`hermes schema` lists tables and columns; "group" needs quotes',
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
    """The folders that may be read could else be written: `COPY … TO` would damage the cache."""
    for statement in con.extract_statements(sql):
        if statement.type not in _ALLOWED:
            raise QueryError(
                f"{statement.type.name} is not allowed: a query reads tables",
                where="the query",
                hint="use SELECT; print with --format csv",
            )


def sizes(loaded: Loaded) -> list[tuple[str, int, str]]:
    """Name, rows over all ranks, and meaning of a row, for every table."""
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
