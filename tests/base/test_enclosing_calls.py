"""The innermost call that is open at a moment, against looking at all of them."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.enclosing_calls import enclosing

_SCHEMA = {"pid": pl.Int64, "tid": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64}
_THREADS = st.sampled_from([(1, 1), (1, 2), (2, 1), (1, None)])


def _frame(rows: list[tuple[int | None, int | None, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


@st.composite
def _calls(draw: st.DrawFn) -> list[tuple[int | None, int | None, int, int]]:
    """Calls that lie in each other or apart, of several threads, in any order."""
    found: list[tuple[int | None, int | None, int, int]] = []

    def inside(thread: tuple[int | None, int | None], start: int, end: int, depth: int) -> None:
        while start < end and depth < 4 and draw(st.booleans()):
            begin = draw(st.integers(start, end))
            stop = draw(st.integers(begin, end))
            found.append((*thread, begin, stop - begin))
            inside(thread, begin, stop, depth + 1)
            start = stop

    for thread in draw(st.lists(_THREADS, max_size=3, unique=True)):
        inside(thread, 0, 40, 0)
    return draw(st.permutations(found))


@given(_calls(), st.lists(st.tuples(_THREADS, st.integers(-2, 44)), max_size=30))
def test_the_innermost_open_call_is_found(
    calls: list[tuple[int | None, int | None, int, int]], asked: list[tuple[tuple[int | None, int | None], int]]
) -> None:
    outer, moments = _frame(calls), _frame([(*thread, when, 0) for thread, when in asked])
    for (thread, when), place in zip(asked, enclosing(outer, moments), strict=True):
        is_open = [
            (start, -dur)
            for pid, tid, start, dur in calls
            if None not in thread and (pid, tid) == thread and start <= when < start + dur
        ]
        told = None if place is None else (calls[place][2], -calls[place][3])
        assert told == max(is_open, default=None)
        assert place is None or calls[place][:2] == thread


def test_no_call_and_no_moment_are_no_error() -> None:
    one = _frame([(1, 1, 0, 5)])
    assert enclosing(_frame([]), one).to_list() == [None]
    assert enclosing(one, _frame([])).to_list() == []
