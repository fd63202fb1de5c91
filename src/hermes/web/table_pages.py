"""Pages of tables, sorted and filtered, in stretches: a browser can scroll through millions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from hermes.base.errors import InputError
from hermes.model.tables import TABLES, empty
from hermes.profiles.api import Loaded, flame, literal
from hermes.store.database import connect
from hermes.web import messages
from hermes.web.analysis_session import AnalysisSession
from hermes.web.cached_columns import Columns, ResultCache, Rows
from hermes.web.document_pages import LONGEST_PAGE, Page, TableRequest, listed_page, refuse_unknown, safe
from hermes.web.listed_tables import GROUPINGS, ListedTable, listed

_ORDERS_BYTES = 128 << 20
"""Bytes of memory for the rows that filters and sorts found."""
_KEPT_FRAMES = 24
_ROOM_BYTES = 640 << 20
"""Bytes of memory for columns of tables and their orders."""
ALL_RANKS = 64
"""Largest number of ranks whose cached tables are shown together; with more, one rank at a time."""
_INT_BYTES = 36
"""Bytes of a number in a list: the place and the number itself."""
_CALLS = ("kind", "name", "pid", "tid", "start_ns", "dur_ns", "depth", "stack_id")
_LONG = ("comm_op", "allocation", "kernel", "host_op")
_AHEAD_ROWS = 2_000_000
"""Largest number of rows of a table whose columns are read ahead; columns of larger tables are read when asked for."""


class TableBrowser:
    """The answers about one study's tables; keeps columns of tables, orders of rows and small tables, while there is
    room."""

    def __init__(self, study: AnalysisSession) -> None:
        self._con = _connection(study.loaded)
        self._tables = listed(study.document)
        self._folders = {rank.rank: rank.folder for rank in study.loaded.ranks}
        self._orders = ResultCache(_ORDERS_BYTES)
        self._frames = ResultCache(_KEPT_FRAMES)
        self._room = ResultCache(_ROOM_BYTES)

    def sizes(self, rank: int) -> dict[str, int]:
        """Number of rows of each cached table: of all ranks where they are few, else of this rank."""
        whole = None if len(self._folders) <= ALL_RANKS else rank
        return self._frames.of(("sizes", whole), lambda: self._count(whole))

    def _count(self, rank: int | None) -> dict[str, int]:
        return {name: sum(map(_rows_of, self._paths(name, rank))) for name in TABLES}

    def page(self, ask: TableRequest) -> Page:
        """The requested stretch of a table; raises `InputError` for an unknown table, column or rank."""
        if not 0 <= ask.limit <= LONGEST_PAGE or ask.offset < 0:
            raise InputError(messages.most_rows(most=str(LONGEST_PAGE)), where="limit")
        if ask.table in self._tables:
            return self._of_document(self._tables[ask.table], ask)
        if ask.table in GROUPINGS:
            return self._of_frame(self.grouped(ask.table, ask.rank), ask)
        if ask.table in TABLES:
            return self._of_table(ask)
        raise InputError(messages.no_table(table=repr(ask.table)), where="table")

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
        """Rows of one query over a cached table of one rank, which `{source}` stands for; empty without the table."""
        paths = self._paths(table, rank)
        if not paths:
            return []
        return self._con.cursor().execute(sql.replace("{source}", f"({_select(paths)})"), parameters).fetchall()

    def flame(self, rank: int, step: int | None, *, whole: bool = False) -> dict[str, object]:
        """Calls of a rank's host threads, merged by their call path: in step `step`, by default the step of median
        length.

        With `whole`, and where no step is marked, over the whole capture. Raises `InputError` for an unknown step.
        """
        return self._frames.of(("flame", rank, step, whole), lambda: self._flame(rank, step, whole=whole))

    def _flame(self, rank: int, step: int | None, *, whole: bool) -> dict[str, object]:
        steps = self._whole("step", rank, ["step", "start_ns", "dur_ns"]).drop_nulls("step").sort("dur_ns", "step")
        if step is not None and step not in steps["step"]:
            raise InputError(messages.no_step(rank=rank, step=str(step)), where="step")
        if step is None and not whole and steps.height:
            step = steps["step"][(steps.height - 1) // 2]
        rows = self._whole("host_op", rank, _CALLS)
        span = (rows if step is None else steps.filter(pl.col("step") == step)).select(
            pl.col("start_ns").min(), (pl.col("start_ns") + pl.col("dur_ns")).max().alias("end_ns")
        )
        first, last = span.row(0) if rows.height else (0, 0)
        stacks = dict(self._whole("stack", rank, ["stack_id", "frames"]).iter_rows())
        return {
            "step": step, "steps": steps["step"].unique().sort().to_list(), "start_ns": str(first), "ns": last - first,
            "frames": [
                [one.name, one.kind, one.parent, one.calls, one.total_ns, safe(one.longest_ns)]
                for one in flame(rows, stacks, (first, last))
            ],
        }  # fmt: skip

    def _whole(self, table: str, rank: int, names: Sequence[str]) -> pl.DataFrame:
        """Some columns of a cached table of one rank; empty columns without the table."""
        paths = self._paths(table, rank)
        return pl.read_parquet(paths[0], columns=list(names)) if paths else empty(TABLES[table]).select(names)

    def ahead(self, rank: int | None, chief: int) -> Iterator[Callable[[], object]]:
        """The pages' first requests, piece by piece: groupings of one rank or of all, and columns of the rank
        `chief`."""
        for key in GROUPINGS:
            yield partial(self.grouped, key, rank)
            if rank != chief:
                yield partial(self.grouped, key, chief)
        yield self.names
        yield partial(self.flame, chief, None)
        yield partial(self.sizes, chief)
        for table in _LONG:
            if self._paths(table, chief):
                own = self._columns(table, chief)
                if own.height <= _AHEAD_ROWS:
                    yield from (partial(own.column, name) for name in TABLES[table].names)

    def names(self) -> pl.DataFrame:
        """Distinct `name`, `kind` and time of kernels, operators and collectives, over all ranks where they are few."""
        return self._frames.of("names", self._names)

    def _names(self) -> pl.DataFrame:
        rank = None if len(self._folders) <= ALL_RANKS else next(iter(self._folders))
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
            raise InputError(messages.not_collected(rank=rank), where="rank")
        if rank is None and len(self._folders) > ALL_RANKS and table != "rank":
            raise InputError(messages.one_rank_at_a_time(most=str(ALL_RANKS)), where="rank", hint=messages.DO_NAME_RANK)
        folders = [self._folders[rank]] if rank is not None else list(self._folders.values())
        return [path for folder in folders if (path := folder / f"{table}.parquet").exists()]

    def _of_table(self, ask: TableRequest) -> Page:
        names = TABLES[ask.table].names
        refuse_unknown(ask, names)
        paths = self._paths(ask.table, ask.rank)
        kinds = {column.name: column.kind for column in TABLES[ask.table].columns}
        columns = tuple((name, kinds[name]) for name in names)
        if not paths:
            return Page(columns=columns, total=0, matching=0, rows=())
        own = self._columns(ask.table, ask.rank)
        if ask.sort or ask.words or ask.only or ask.within:
            order = self._order(ask, own)
            chosen, matching = order[ask.offset : ask.offset + ask.limit].astype(np.int64), len(order)
        else:
            chosen, matching = np.arange(ask.offset, min(ask.offset + ask.limit, own.height)), own.height
        return Page(
            columns=columns, total=own.height, matching=matching,
            rows=tuple(tuple(map(safe, row)) for row in own.picked(chosen)),
        )  # fmt: skip

    def _columns(self, table: str, rank: int | None) -> Columns:
        paths = self._paths(table, rank)
        return self._frames.of(("columns", table, rank), lambda: Columns(TABLES[table], paths, self._room))

    def _order(self, ask: TableRequest, own: Columns) -> Rows:
        """The numbers of the matching rows, in the requested order."""
        key = (ask.table, ask.rank, ask.sort, ask.descending, ask.words, ask.only, ask.within)
        return self._orders.of(key, lambda: self._sorted(ask, own), lambda made: made.nbytes)

    def _sorted(self, ask: TableRequest, own: Columns) -> Rows:
        matching = own.having(ask.words, ask.only, ask.within)
        if not ask.sort and matching is not None:
            return np.flatnonzero(matching)
        order = own.order(ask.sort, descending=ask.descending)
        return order if matching is None else order[matching[order]]

    def _of_frame(self, frame: pl.DataFrame, ask: TableRequest) -> Page:
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

    def _of_document(self, table: ListedTable, ask: TableRequest) -> Page:
        key = ("document", ask.table, ask.rank, ask.sort, ask.descending, ask.words, ask.only)
        return listed_page(table, ask, lambda order: self._orders.of(key, order, lambda made: _INT_BYTES * len(made)))


def _connection(loaded: Loaded) -> duckdb.DuckDBPyConnection:
    """A database connection in memory, which can read no files but those of the ranks."""
    con = connect()
    folders = ", ".join(literal(rank.folder) for rank in loaded.ranks)
    con.execute(f"SET allowed_directories = [{folders}]")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def _select(paths: Sequence[Path]) -> str:
    return f"SELECT * FROM read_parquet([{', '.join(map(literal, paths))}])"


def _rows_of(path: Path) -> int:
    return int(pl.scan_parquet(path).select(pl.len()).collect().item())


def _kind(kind: pl.DataType) -> str:
    if kind.is_integer():
        return "int"
    if kind == pl.Boolean:
        return "bool"
    return "real" if kind.is_numeric() else "list" if kind.is_nested() else "text"
