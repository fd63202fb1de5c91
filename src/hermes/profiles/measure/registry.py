"""The registry of measures of one rank: `@per_rank` declares a function's row kinds and the columns it reads.

A new measure is a function in any module of this package. The function gets `RankTables` and returns a row, rows, or
None. `rank_measures` finds every measure, loads the columns that all of them need once, and keeps the rows by their
kind.
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

ACCOUNTED = frozenset({
    "rank", "setting", "step", "kernel", "host_op", "stack", "gc", "flow", "comm_op", "comm_task", "comm_link", "group",
})  # fmt: skip
"""The tables behind steps, leaves, critical paths and waits: every finding depends on them."""

T = TypeVar("T")
Measure = TypeVar("Measure", bound="Callable[[RankTables], object]")


class RankTables:
    """The tables of one rank: each is loaded at its first use, with the columns that any measure needs."""

    def __init__(self, data: RankData, columns: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.data = data
        self.rank = data.rank
        self._columns = columns if columns is not None else needed()
        self._lock = threading.Lock()
        self._made: dict[object, _Once] = {}

    def table(self, name: str) -> pl.DataFrame:
        """A table of the rank: with the columns that measures declared for it, or whole if no measure declared any."""
        return self._once(name, lambda: self.data.table(name, *self._columns.get(name, ())))

    def once(self, function: Callable[[RankTables], T]) -> T:
        """The result of a function on this rank.

        It is computed once; other threads that ask meanwhile wait for the result.
        """
        return self._once(function, lambda: function(self))

    def let_go(self) -> None:
        """Free the cached results of functions on this rank; its tables stay."""
        with self._lock:
            self._made = {key: made for key, made in self._made.items() if isinstance(key, str)}

    @property
    def about(self) -> Mapping[str, Any]:
        """The one row of the table `rank`."""
        return self._once("about", lambda: self.table("rank").row(0, named=True))

    @property
    def vendor(self) -> str:
        """The vendor of the rank's device: `ascend`, `nvidia`, `amd` or `cpu`."""
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
    """A value that is computed once; other threads that ask meanwhile wait for the value."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    made: bool = False
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PerRank:
    """A measure of one rank: the kinds of its rows, the columns it reads of wide tables, and its function.

    `beside` are the tables it reads that are not `ACCOUNTED`. `becomes` are the kinds of rows that are made of its rows
    once the rows of all ranks are together.
    """

    kinds: tuple[type, ...]
    needs: Mapping[str, tuple[str, ...]]
    beside: tuple[str, ...]
    becomes: tuple[type, ...]
    function: Callable[[RankTables], object]

    @property
    def name(self) -> str:
        """The module and name of the function; rows of one kind stand in the order of these names."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    def rows(self, rank: RankTables) -> tuple[object, ...]:
        """The rows that the function measures on a rank."""
        made = rank.once(self.function)
        return () if made is None else tuple(made) if isinstance(made, (tuple, list, Iterator)) else (made,)


_FOUND: dict[str, PerRank] = {}


def per_rank(
    *kinds: type,
    needs: Mapping[str, Iterable[str]] | None = None,
    beside: tuple[str, ...] = (),
    becomes: tuple[type, ...] = (),
) -> Callable[[Measure], Measure]:
    """Declare a function that measures one rank; `needs` names, for each table, the columns that the function reads."""

    def declare(function: Measure) -> Measure:
        own = {table: tuple(columns) for table, columns in (needs or {}).items()}
        one = PerRank(kinds=kinds, needs=own, beside=beside, becomes=becomes, function=function)
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
    """For each table, the columns that measures read; a table that no measure declares is loaded whole."""
    union: dict[str, dict[str, None]] = {}
    for one in every_measure():
        for table, columns in one.needs.items():
            union.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: tuple(columns) for table, columns in union.items()}


def tables_behind(kinds: Iterable[type | None]) -> frozenset[str]:
    """The tables from which rows of these kinds are made."""
    wanted = {*kinds}
    behind = (one.beside for one in every_measure() if not wanted.isdisjoint((*one.kinds, *one.becomes)))
    return ACCOUNTED.union(*behind)
