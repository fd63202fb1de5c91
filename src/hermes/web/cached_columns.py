"""Keeps columns of cached tables in memory while there is room, for quick sorting, filtering and paging.

Texts repeat, so a column of texts is stored as its distinct texts and a small number for each row. A search reads only
the distinct texts, and rows are sorted by their numbers.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hermes.model.tables import Table

Value = TypeVar("Value")
Rows = NDArray[np.int64]
"""Row numbers, counted through all files of a table."""


def _one(_: object) -> int:
    return 1


class ResultCache:
    """A cache of results by key, which keeps the last ones that fit; safe for threads, which compute each result only
    once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[object, tuple[Any, int]] = OrderedDict()
        self._sum = 0
        self._lock = threading.Lock()
        self._making: dict[object, threading.Lock] = {}

    def of(self, key: object, make: Callable[[], Value], size: Callable[[Value], int] = _one) -> Value:
        """The kept result, or a new one; without `size` each result counts as 1."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                found: Value = self._held[key][0]
                return found
            own = self._making.setdefault(key, threading.Lock())
        with own:
            with self._lock:
                if key in self._held:
                    found = self._held[key][0]
                    return found
            try:
                made = make()
                self._hold(key, made, size(made))
            finally:
                # A failed computation leaves nothing behind, either.
                with self._lock:
                    self._making.pop(key, None)
            return made

    def _hold(self, key: object, made: object, size: int) -> None:
        with self._lock:
            # A thread that waited for a result that was dropped at once computes the result again.
            self._sum -= self._held.pop(key, (None, 0))[1]
            self._held[key] = (made, size)
            self._sum += size
            while self._sum > self._most and len(self._held) > 1:
                self._sum -= self._held.popitem(last=False)[1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A column of texts: for each row, the index of its text among the `distinct` texts in order of their bytes.

    A row without a text has the index after the last. Indices have the smallest type that holds them: half a million
    rows of some thousand names take a megabyte.
    """

    of_row: NDArray[np.unsignedinteger]
    distinct: pl.Series

    @staticmethod
    def of(texts: pl.Series) -> Texts:
        """A column of texts made from a polars column."""
        distinct = texts.drop_nulls().unique().sort()
        # The code of a text in an Enum is its index.
        codes = texts.cast(pl.Enum(distinct)).to_physical().fill_null(len(distinct))
        return Texts(
            of_row=codes.to_numpy().astype(np.uint16 if len(distinct) < 1 << 16 else np.uint32), distinct=distinct
        )

    def ordered(self, *, descending: bool) -> Rows:
        """All rows sorted by text: equal texts by row number, rows without text last; O(n) up to 65 535 texts."""
        own, last = self.of_row, len(self.distinct)
        if descending and last:
            own = np.where(own == last, own, last - 1 - own).astype(own.dtype)
        return np.argsort(own, kind="stable")

    def holding(self, word: str) -> NDArray[np.bool_]:
        """Whether each row's text contains a word, in upper or lower case."""
        return self._rows(self.distinct.str.to_lowercase().str.contains(word.lower(), literal=True))

    def equal(self, text: str) -> NDArray[np.bool_]:
        """Whether each row's text equals `text`."""
        return self._rows(self.distinct == text)

    def _rows(self, chosen: pl.Series) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.append(chosen.to_numpy().astype(bool), False)[self.of_row]
        return found

    def picked(self, rows: Rows) -> list[object]:
        """The texts of some rows, by row number."""
        codes = pl.Series(self.of_row[rows].astype(np.int64))
        known = pl.select(pl.when(codes < len(self.distinct)).then(codes)).to_series()
        return self.distinct.gather(known).to_list()

    def bytes(self) -> int:
        """Bytes of memory that the column of texts takes."""
        return self.of_row.nbytes + int(self.distinct.estimated_size())


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A column of numbers or flags of a cached table."""

    values: pl.Series

    def ordered(self, *, descending: bool) -> Rows:
        """All rows sorted by value: equal values by row number, rows without a value last."""
        whole = self.values.cast(pl.Int64) if self.values.dtype == pl.Boolean else self.values
        own = whole.fill_null(0).to_numpy()
        found = np.argsort(-own if descending else own, kind="stable")
        if whole.null_count():
            absent = whole.is_null().to_numpy()[found]
            found = np.concatenate([found[~absent], np.sort(found[absent])])
        return found

    def equal(self, text: str) -> NDArray[np.bool_]:
        """Whether each value, written as text, equals `text`."""
        same: NDArray[np.bool_] = (self.values.cast(pl.String) == text).fill_null(value=False).to_numpy()
        return same

    def picked(self, rows: Rows) -> list[object]:
        """The values of some rows, by row number."""
        return self.values.gather(rows).to_list()

    def bytes(self) -> int:
        """Bytes of memory that the column of numbers takes."""
        return int(self.values.estimated_size())


class Columns:
    """The columns of one cached table of some ranks, each read when first needed."""

    def __init__(self, table: Table, paths: Sequence[Path], room: ResultCache) -> None:
        self.table = table
        self._paths = tuple(paths)
        self._room = room
        self.heights = [int(pl.scan_parquet(path).select(pl.len()).collect().item()) for path in self._paths]
        self.height = sum(self.heights)

    def column(self, name: str) -> Texts | Numbers:
        """A column over all files of the table."""
        return self._room.of((self._paths, name), lambda: self._read(name), lambda made: made.bytes())

    def order(self, name: str, *, descending: bool) -> Rows:
        """All rows of the table, sorted by a column."""
        key = (self._paths, name, descending)
        return self._room.of(key, lambda: self._ordered(name, descending=descending), lambda made: made.nbytes)

    def having(
        self, words: Sequence[str], only: Sequence[tuple[str, str]], within: tuple[int, int] | None
    ) -> NDArray[np.bool_] | None:
        """Whether each row contains every word, has these values and overlaps the stretch of time; None when all rows
        do."""
        found: NDArray[np.bool_] | None = None
        for mask in (
            *(self._holding(word) for word in words),
            *(self.column(name).equal(text) for name, text in only),
            *((self._within(*within),) if within else ()),
        ):
            found = mask if found is None else found & mask
        return found

    def picked(self, rows: Rows) -> list[tuple[object, ...]]:
        """Complete rows of the table, by row number."""
        if not len(rows):
            return []
        if len(self._paths) == 1 and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            # Reading a stretch of the file is quicker than reading the columns, if the columns are not in memory yet.
            first = pl.scan_parquet(self._paths[0]).slice(int(rows[0]), len(rows))
            return first.select(self.table.names).collect().rows()
        return list(zip(*(self.column(name).picked(rows) for name in self.table.names), strict=True))

    def _read(self, name: str) -> Texts | Numbers:
        values = pl.concat([pl.read_parquet(path, columns=[name])[name] for path in self._paths])
        return Texts.of(values) if values.dtype == pl.String else Numbers(values=values)

    def _ordered(self, name: str, *, descending: bool) -> Rows:
        found = self.column(name).ordered(descending=descending)
        return found.astype(np.uint32) if self.height < 1 << 32 else found

    def _holding(self, word: str) -> NDArray[np.bool_]:
        found = np.zeros(self.height, dtype=bool)
        for column in self.table.columns:
            own = self.column(column.name) if column.kind == "text" else None
            if isinstance(own, Texts):
                found |= own.holding(word)
        return found

    def _within(self, first_ns: int, last_ns: int) -> NDArray[np.bool_]:
        names = self.table.names
        ends = ("alloc_ns", "release_ns") if "alloc_ns" in names else ("start_ns", "dur_ns")
        begin, other = (self._values(name) for name in ends)
        if "alloc_ns" in names:
            found = (begin <= last_ns) & (other > first_ns).fill_null(value=True)
        else:
            found = (begin < last_ns) & (begin + other.fill_null(0) >= first_ns)
        made: NDArray[np.bool_] = found.fill_null(value=False).to_numpy()
        return made

    def _values(self, name: str) -> pl.Series:
        own = self.column(name)
        assert isinstance(own, Numbers)
        return own.values
