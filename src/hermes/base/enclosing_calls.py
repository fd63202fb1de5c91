"""Finds which call of a host thread is open at a moment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

_Ints = npt.NDArray[np.int64]
_LANE = ("pid", "tid")


def enclosing(outer: pl.DataFrame, moments: pl.DataFrame) -> pl.Series:
    """For each row of `moments` (`pid, tid, start_ns`), the place in `outer` of the innermost row open then, or null.

    Of rows with equal begin and end the last is the innermost; a row of no length is never open.
    """
    found = np.full(moments.height, -1, dtype=np.int64)
    starts, when = outer["start_ns"].to_numpy(), moments["start_ns"].to_numpy()
    ends = starts + outer["dur_ns"].to_numpy()
    for at, row in _lanes(outer, moments):
        at, row = at[_order(starts[at], ends[at])], row[_order(when[row])]
        place = _innermost(starts[at], ends[at], when[row])
        found[row] = np.where(place >= 0, at[place], -1)
    places = pl.Series("at", found)
    return places.set(places < 0, None)


def _lanes(outer: pl.DataFrame, moments: pl.DataFrame) -> Iterator[tuple[_Ints, _Ints]]:
    """For each thread that both tables have, the places of its rows in each table."""
    if (only := _only(outer)) is not None and only == _only(moments):
        yield np.arange(outer.height), np.arange(moments.height)
        return
    places = [
        rows.select(_LANE).with_row_index(name).drop_nulls().group_by(_LANE, maintain_order=True).agg(name)
        for rows, name in ((outer, "at"), (moments, "row"))
    ]
    both = places[0].join(places[1], on=_LANE, how="inner")
    for at, row in zip(both["at"], both["row"], strict=True):
        yield at.to_numpy().astype(np.int64), row.to_numpy().astype(np.int64)


def _only(rows: pl.DataFrame) -> tuple[int, ...] | None:
    """The thread of all rows; None if the rows are of several threads or of a thread that is not known."""
    low, high = (rows.select(way(pl.col(_LANE))).row(0) for way in (pl.Expr.min, pl.Expr.max))
    unknown = sum(rows[name].null_count() for name in _LANE)
    return low if low == high and not unknown and rows.height else None


def _order(starts: _Ints, ends: _Ints | None = None) -> _Ints | slice:
    """The order that sorts rows by start, longer rows first; most tables are sorted already."""
    if ends is None:
        return slice(None) if np.all(starts[1:] >= starts[:-1]) else np.argsort(starts, kind="stable")
    later = (starts[1:] > starts[:-1]) | ((starts[1:] == starts[:-1]) & (ends[1:] <= ends[:-1]))
    return slice(None) if np.all(later) else np.lexsort((-ends, starts))


def _innermost(starts: _Ints, ends: _Ints, when: _Ints) -> _Ints:
    """For each moment, the place of the innermost interval that is open then, or -1; intervals and moments are sorted.

    The interval that began last is the innermost, if still open. Otherwise the open interval holds another interval:
    intervals that hold none are left out, and the search runs again over the rest.
    """
    found = np.full(len(when), -1, dtype=np.int64)
    left, place = np.arange(len(when)), np.arange(len(starts))
    while len(left) and len(place):
        first = np.searchsorted(when, starts, side="left")
        last = np.cumsum(np.bincount(first, minlength=len(when) + 1)[: len(when)]) - 1
        is_open = (last >= 0) & (when < ends[last])
        found[left[is_open]] = place[last[is_open]]
        rest = (last >= 0) & ~is_open
        left, when = left[rest], when[rest]
        holds = np.append(starts[1:] < ends[:-1], [False])
        place, starts, ends = place[holds], starts[holds], ends[holds]
    return found
