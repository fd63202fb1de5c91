"""Pages of tables: sorted, filtered, a stretch at a time, so that a browser scrolls through millions of rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.base.errors import InputError
from hermes.read.query import literal
from hermes.tables import TABLES
from hermes.web.documents import LONGEST_PAGE, Ask, Page, listed_page, refuse_unknown, safe
from hermes.web.orders import FILE_BITS, Places
from hermes.web.sources import GROUPINGS, Listed, listed
from hermes.web.study import Study
from hermes.workflow.load import Loaded

_KEPT_ORDERS = 24
_KEPT_FRAMES = 24
_KEPT_PLACES = 12
_ALL_RANKS = 64
"""Cached tables of more ranks are looked at one rank at a time."""
_MEMORY = "2GB"

Value = TypeVar("Value")


class Kept(OrderedDict[object, Any]):
    """The last results by what was asked; safe for threads that ask the same twice."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._lock = threading.Lock()

    def of(self, key: object, make: Callable[[], Value]) -> Value:
        """The kept result, or a new one."""
        with self._lock:
            if key in self:
                self.move_to_end(key)
                found: Value = self[key]
                return found
        made = make()
        with self._lock:
            self[key] = made
            while len(self) > self._most:
                self.popitem(last=False)
        return made


class Browser:
    """Answers for one study; of results it keeps orders of rows and small tables, never a large table."""

    def __init__(self, study: Study) -> None:
        self._con = _connection(study.loaded)
        self._tables = listed(study.document)
        self._folders = {rank.rank: rank.folder for rank in study.loaded.ranks}
        self._orders = Kept(_KEPT_ORDERS)
        self._frames = Kept(_KEPT_FRAMES)
        self._places = Kept(_KEPT_PLACES)

    def sizes(self, rank: int) -> dict[str, int]:
        """Rows of each cached table: of all ranks where they are few, else of this one."""
        whole = None if len(self._folders) <= _ALL_RANKS else rank
        return self._frames.of(("sizes", whole), lambda: self._count(whole))

    def _count(self, rank: int | None) -> dict[str, int]:
        return {name: sum(map(_rows_of, self._paths(name, rank))) for name in TABLES}

    def page(self, ask: Ask) -> Page:
        """The stretch; raises `InputError` for a table, column or rank that there is not."""
        if not 0 <= ask.limit <= LONGEST_PAGE or ask.offset < 0:
            raise InputError(f"at most {LONGEST_PAGE} rows at a time", where="limit")
        if ask.table in self._tables:
            return self._of_document(self._tables[ask.table], ask)
        if ask.table in GROUPINGS:
            return self._of_frame(self.grouped(ask.table, ask.rank), ask)
        if ask.table in TABLES:
            return self._of_table(ask)
        raise InputError(f"there is no table {ask.table!r}", where="table")

    def grouped(self, key: str, rank: int | None) -> pl.DataFrame:
        """The result of a grouping, over one rank or over all."""
        grouping = GROUPINGS[key]
        return self._frames.of((key, rank), lambda: self._grouped(grouping.table, grouping.query, rank))

    def _grouped(self, table: str, query: str, rank: int | None) -> pl.DataFrame:
        if not self._paths(table, rank):
            return pl.DataFrame()
        source = f"({_select(self._paths(table, rank))})"
        found: pl.DataFrame = self._con.cursor().sql(query.replace("{source}", source)).pl()
        return found

    def query(self, sql: str, table: str, rank: int, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of one query over a cached table of one rank, which `{source}` stands for; none without the table."""
        paths = self._paths(table, rank)
        if not paths:
            return []
        return self._con.cursor().execute(sql.replace("{source}", f"({_select(paths)})"), parameters).fetchall()

    def names(self) -> pl.DataFrame:
        """Distinct `name`, `kind` and time of kernels, operators and collectives, over all ranks where they are few."""
        return self._frames.of("names", self._names)

    def _names(self) -> pl.DataFrame:
        rank = None if len(self._folders) <= _ALL_RANKS else next(iter(self._folders))
        parts = [
            frame.select("name", pl.lit(kind).alias("kind"), pl.col("total_ns").cast(pl.Int64))
            for kind, key in (("kernel", "kernels.name"), ("host", "host.names"))
            if (frame := self.grouped(key, rank)).width
        ]
        if not parts:
            return pl.DataFrame(schema={"name": pl.String, "kind": pl.String, "total_ns": pl.Int64})
        summed = pl.concat(parts).group_by("name", "kind").agg(pl.col("total_ns").sum())
        return summed.sort("total_ns", "name", descending=[True, False])

    def _paths(self, table: str, rank: int | None) -> list[Path]:
        if rank is not None and rank not in self._folders:
            raise InputError(f"rank {rank} was not collected", where="rank")
        if rank is None and len(self._folders) > _ALL_RANKS and table != "rank":
            raise InputError(
                f"tables of more than {_ALL_RANKS} ranks are shown one rank at a time", where="rank", hint="name a rank"
            )
        folders = [self._folders[rank]] if rank is not None else list(self._folders.values())
        return [path for folder in folders if (path := folder / f"{table}.parquet").exists()]

    def _of_table(self, ask: Ask) -> Page:
        names = TABLES[ask.table].names
        refuse_unknown(ask, names)
        paths = self._paths(ask.table, ask.rank)
        kinds = {column.name: column.kind for column in TABLES[ask.table].columns}
        columns = tuple((name, kinds[name]) for name in names)
        if not paths:
            return Page(columns=columns, total=0, matching=0, rows=())
        order = self._order(ask, paths, names)
        chosen = order[ask.offset : ask.offset + ask.limit]
        return Page(
            columns=columns, total=sum(map(_rows_of, paths)), matching=len(order), rows=self._gathered(paths, chosen)
        )

    def _order(self, ask: Ask, paths: list[Path], names: Sequence[str]) -> NDArray[np.int64]:
        key = (ask.table, ask.rank, ask.sort, ask.descending, ask.words, ask.only, ask.within)
        return self._orders.of(key, lambda: self._sorted(ask, paths, names))

    def _sorted(self, ask: Ask, paths: list[Path], names: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of the rows that match, in the order asked; rows are numbered through all files."""
        conditions, parameters = _conditions(ask, names)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if ask.sort in _texts(ask.table):
            places = self._places.of((ask.table, ask.rank, ask.sort), lambda: Places.read(paths, ask.sort))
            matching = self._matching(paths, where, parameters, " ORDER BY number") if where else places.numbers()
            return places.ordered(matching, descending=ask.descending)
        direction = "DESC" if ask.descending else "ASC"
        order = f' ORDER BY "{ask.sort}" {direction} NULLS LAST, number' if ask.sort else " ORDER BY number"
        return self._matching(paths, where, parameters, order)

    def _matching(self, paths: list[Path], where: str, parameters: Sequence[object], order: str) -> NDArray[np.int64]:
        found = self._con.cursor().execute(f"SELECT number FROM ({_numbered(paths)}){where}{order}", parameters)
        return np.asarray(found.fetchnumpy()["number"], dtype=np.int64)

    def _gathered(self, paths: list[Path], chosen: NDArray[np.int64]) -> tuple[tuple[object, ...], ...]:
        if not len(chosen):
            return ()
        wanted = ", ".join(map(str, chosen.tolist()))
        sql = f"SELECT number, * EXCLUDE (number) FROM ({_numbered(paths)}) WHERE number IN ({wanted})"
        rows = {row[0]: row[1:] for row in self._con.cursor().execute(sql).fetchall()}
        return tuple(tuple(map(safe, rows[number])) for number in chosen.tolist() if number in rows)

    def _of_frame(self, frame: pl.DataFrame, ask: Ask) -> Page:
        columns = tuple((name, _kind(kind)) for name, kind in frame.schema.items())
        refuse_unknown(ask, frame.columns)
        shown = frame
        texts = [name for name, kind in columns if kind == "text"]
        for word in ask.words:
            joined = pl.concat_str(texts, separator="\n", ignore_nulls=True).str.to_lowercase()
            shown = shown.filter(joined.str.contains(word.lower(), literal=True)) if texts else shown.clear()
        for column, text in ask.only:
            shown = shown.filter(pl.col(column).cast(pl.String) == text)
        if ask.sort:
            shown = shown.sort(ask.sort, descending=ask.descending, nulls_last=True, maintain_order=True)
        rows = shown.slice(ask.offset, ask.limit).rows()
        return Page(
            columns=columns, total=frame.height, matching=shown.height,
            rows=tuple(tuple(map(safe, row)) for row in rows),
        )  # fmt: skip

    def _of_document(self, table: Listed, ask: Ask) -> Page:
        key = ("document", ask.table, ask.rank, ask.sort, ask.descending, ask.words, ask.only)
        return listed_page(table, ask, lambda order: self._orders.of(key, order))


def _connection(loaded: Loaded) -> duckdb.DuckDBPyConnection:
    """In memory, and unable to reach any file but those of the ranks."""
    con = duckdb.connect()
    folders = ", ".join(literal(rank.folder) for rank in loaded.ranks)
    con.execute(f"SET memory_limit = '{_MEMORY}'")
    con.execute(f"SET allowed_directories = [{folders}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def _select(paths: Sequence[Path]) -> str:
    return f"SELECT * FROM read_parquet([{', '.join(map(literal, paths))}])"


def _numbered(paths: Sequence[Path]) -> str:
    """The rows of several files with a number each; a number is its place in its file and 2^40 for each file before."""
    parts = [
        f"SELECT *, file_row_number + {at << FILE_BITS} AS number "
        f"FROM read_parquet({literal(path)}, file_row_number = true)"
        for at, path in enumerate(paths)
    ]
    inner = " UNION ALL ".join(parts)
    return f"SELECT * EXCLUDE (file_row_number) FROM ({inner})"


def _rows_of(path: Path) -> int:
    return int(pl.scan_parquet(path).select(pl.len()).collect().item())


def _texts(table: str) -> list[str]:
    return [column.name for column in TABLES[table].columns if column.kind == "text"]


def _conditions(ask: Ask, names: Sequence[str]) -> tuple[list[str], list[object]]:
    conditions: list[str] = []
    parameters: list[object] = []
    texts = _texts(ask.table)
    joined = "lower(concat_ws(E'\\n', " + ", ".join(f'"{name}"' for name in texts) + "))"
    for word in ask.words:
        conditions.append(f"contains({joined}, ?)" if texts else "?::TEXT IS NULL")
        parameters.append(word.lower())
    for column, text in ask.only:
        conditions.append(f'"{column}"::VARCHAR = ?')
        parameters.append(text)
    if ask.within:
        first, last = ask.within
        if "alloc_ns" in names:
            conditions.append("alloc_ns <= ? AND coalesce(release_ns > ?, true)")
            parameters += [last, first]
        else:
            conditions.append("start_ns < ? AND start_ns + coalesce(dur_ns, 0) >= ?")
            parameters += [last, first]
    return conditions, parameters


def _kind(kind: pl.DataType) -> str:
    if kind.is_integer():
        return "int"
    if kind == pl.Boolean:
        return "bool"
    return "real" if kind.is_numeric() else "list" if kind.is_nested() else "text"
