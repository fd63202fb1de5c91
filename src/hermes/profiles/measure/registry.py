"""Measures of one rank: a function says by `@per_rank` what kind of row it makes and of which columns.

A new measure is a function in any module of this package. It gets `RankTables` and returns a row, rows, or None; who
runs the measures finds it, loads the columns that all of them need once, and keeps the rows by their kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import polars as pl

from hermes.profiles.measure import load_all
from hermes.store.rank_data import RankData

T = TypeVar("T")
Measure = TypeVar("Measure", bound="Callable[[RankTables], object]")


class RankTables:
    """The tables of one rank: each loaded when it is first asked for, with the columns that any measure needs."""

    def __init__(self, data: RankData, columns: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.data = data
        self.rank = data.rank
        self._columns = columns if columns is not None else needed()
        self._lock = threading.Lock()
        self._made: dict[object, _Once] = {}

    def table(self, name: str) -> pl.DataFrame:
        """A table: with the columns that measures declared for it, or whole where none did."""
        return self._once(name, lambda: self.data.table(name, *self._columns.get(name, ())))

    def once(self, function: Callable[[RankTables], T]) -> T:
        """What a function makes of this rank; it is called once, whoever asks, in whatever thread."""
        return self._once(function, lambda: function(self))

    @property
    def about(self) -> Mapping[str, Any]:
        """The one row of the table `rank`."""
        return self._once("about", lambda: self.table("rank").row(0, named=True))

    @property
    def vendor(self) -> str:
        """`ascend`, `nvidia`, `amd` or `cpu`."""
        return str(self.about["vendor"])

    def _once(self, key: object, make: Callable[[], T]) -> T:
        with self._lock:
            found = self._made.setdefault(key, _Once())
        with found.lock:
            if not found.made:
                found.value, found.made = make(), True
        return found.value  # type: ignore[return-value]


@dataclass(slots=True)
class _Once:
    """A value that is made once; whoever comes meanwhile waits for it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    made: bool = False
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerRank:
    """A measure of one rank: the kinds of its rows, the columns that it needs of wide tables, and its function."""

    kinds: tuple[type, ...]
    needs: Mapping[str, tuple[str, ...]]
    function: Callable[[RankTables], object]

    @property
    def name(self) -> str:
        """The module and the function, which is also the order in which rows of one kind stand."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def rows(self, rank: RankTables) -> tuple[object, ...]:
        """What the function measures on a rank, as rows."""
        made = rank.once(self.function)
        return () if made is None else tuple(made) if isinstance(made, (tuple, list, Iterator)) else (made,)


_FOUND: dict[str, PerRank] = {}


def per_rank(*kinds: type, needs: Mapping[str, Iterable[str]] | None = None) -> Callable[[Measure], Measure]:
    """Declare a function that measures one rank; `needs` names the columns that it reads of `RankTables.table`."""

    def declare(function: Measure) -> Measure:
        one = PerRank(kinds=kinds, needs={table: tuple(own) for table, own in (needs or {}).items()}, function=function)
        _FOUND[one.name] = one
        return function

    return declare


@cache
def every_measure() -> tuple[PerRank, ...]:
    """All measures of one rank in the modules of this package, in the order of their names."""
    load_all()
    return tuple(one for _, one in sorted(_FOUND.items()))


@cache
def needed() -> Mapping[str, tuple[str, ...]]:
    """By table the columns that measures read of it; a table that none declares is loaded whole."""
    union: dict[str, dict[str, None]] = {}
    for one in every_measure():
        for table, columns in one.needs.items():
            union.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: tuple(columns) for table, columns in union.items()}
