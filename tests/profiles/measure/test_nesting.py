"""Laws of calls that hold each other, whatever was recorded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.measure.leaves.nesting import (
    NONE,
    Ints,
    _parents,
    _without_crossings,
    calls_by_start,
    nest_sorted_calls,
    of_outermost,
)

CALLS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 25)), max_size=40)


def calls(drawn: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    start = np.array([begin for begin, _ in drawn], dtype=np.int64)
    end = start + np.array([length for _, length in drawn], dtype=np.int64)
    order = calls_by_start(start, end)
    return start[order], end[order]


@given(CALLS)
def test_calls_stand_by_start_and_longer_ones_first(drawn: list[tuple[int, int]]) -> None:
    start, end = calls(drawn)
    pairs = list(zip(start.tolist(), (-end).tolist(), strict=True))
    assert pairs == sorted(pairs)


@given(CALLS)
def test_each_call_lies_within_the_one_around_it(drawn: list[tuple[int, int]]) -> None:
    start, told = calls(drawn)
    end, parent, _ = nest_sorted_calls(start, told)
    held = parent != NONE
    assert (end[held] <= end[parent[held]]).all()
    assert (start[held] >= start[parent[held]]).all()
    assert ((start <= end) & (end <= told)).all()


@given(CALLS)
def test_parents_and_depths_are_those_of_the_calls_as_they_were_cut(drawn: list[tuple[int, int]]) -> None:
    start, told = calls(drawn)
    end, parent, depth = nest_sorted_calls(start, told)
    above, deep = _parents(start, end)
    assert parent.tolist() == above.tolist()
    assert depth.tolist() == deep.tolist()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 25)), max_size=4))
def test_calls_that_overlap_with_none_stay_as_they_are(drawn: list[tuple[int, int]]) -> None:
    start, told = calls(drawn)
    end, _, _ = nest_sorted_calls(start, told)
    crossed = (start[:, None] < start) & (start < told[:, None]) & (told[:, None] < told)
    if not crossed.any():
        assert end.tolist() == told.tolist()


@given(CALLS)
def test_a_walk_along_the_crossing_calls_alone_cuts_as_one_along_all_calls(drawn: list[tuple[int, int]]) -> None:
    start, told = calls(drawn)
    end, _, _ = nest_sorted_calls(start, told)
    assert end.tolist() == _without_crossings(start.tolist(), told.tolist())


@given(CALLS, st.integers(0, 2**12 - 1))
def test_a_call_takes_from_the_outermost_around_it_that_has_something(
    drawn: list[tuple[int, int]], having: int
) -> None:
    start, end = calls(drawn)
    end, parent, _ = nest_sorted_calls(start, end)
    own = np.array([place if having >> place % 12 & 1 else NONE for place in range(len(start))], dtype=np.int32)
    found = of_outermost(own, start, end)
    for place in range(len(start)):
        told, at = own[place], int(parent[place])
        while at != NONE:
            told, at = own[at] if own[at] != NONE else told, int(parent[at])
        assert found[place] == told


def test_a_step_that_begins_inside_a_call_of_the_step_before_keeps_its_time() -> None:
    # The wrapper of `optimizer.step()` closes the mark of a step and opens the next one.
    start = np.array([0, 1, 90, 100, 110, 120, 195], dtype=np.int64)
    told = np.array([99, 200, 105, 198, 150, 130, 199], dtype=np.int64)
    end, parent, depth = nest_sorted_calls(start, told)
    assert (end > start).all()
    assert end[3] == 198
    assert parent[4:6].tolist() == [3, 4]
    assert depth[5] == depth[3] + 2


def test_calls_that_all_overlap_each_keep_some_time() -> None:
    start, told = (np.array(edges, dtype=np.int64) for edges in ([13, 16, 16, 19], [19, 28, 27, 38]))
    end, parent, _ = nest_sorted_calls(start, told)
    assert end.tolist() == [16, 19, 19, 38]
    assert parent.tolist() == [NONE, NONE, 1, NONE]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 40)), max_size=60))
def test_no_call_is_cut_to_nothing_and_each_lies_in_the_last_one_that_is_open(drawn: list[tuple[int, int]]) -> None:
    start, told = calls(drawn)
    end, parent, _ = nest_sorted_calls(start, told)
    assert (end > start).all()
    for place in range(len(start)):
        around = [at for at in range(place) if end[at] > start[place]]
        assert parent[place] == (around[-1] if around else NONE)
