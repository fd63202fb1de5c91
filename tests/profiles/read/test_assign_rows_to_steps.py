"""Host rows belong to the mark they start in; device rows to the step that launched them."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.read.assign_rows_to_steps import own_device, own_host

STEP = {"step": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64}
ROW = {"start_ns": pl.Int64, "dur_ns": pl.Int64, "launch_ns": pl.Int64}

MARKS = ((5, 0, 100), (6, 100, 100))


def marks(*steps: tuple[int, int, int]) -> pl.DataFrame:
    """Steps as (number, start, length)."""
    return pl.DataFrame(steps, schema=STEP, orient="row")


def device(steps: tuple[tuple[int, int, int], ...], *rows: tuple[int, int, int | None]) -> list[int | None]:
    """The steps of device rows that are given as (start, length, launch)."""
    return own_device(marks(*steps), pl.DataFrame(rows, schema=ROW, orient="row"))["step"].to_list()


def host(steps: tuple[tuple[int, int, int], ...], *starts: int) -> list[int | None]:
    rows = pl.DataFrame({"start_ns": starts}, schema={"start_ns": pl.Int64})
    return own_host(marks(*steps), rows)["step"].to_list()


def test_a_host_row_belongs_to_the_mark_that_holds_its_start() -> None:
    assert host(MARKS, 0, 99, 100, 199) == [5, 5, 6, 6]


def test_a_host_row_outside_every_mark_belongs_to_none() -> None:
    assert host(((5, 10, 10), (6, 30, 10)), 9, 20, 25, 40) == [None, None, None, None]


def test_steps_need_not_be_in_order() -> None:
    assert host(MARKS[::-1], 50, 150) == [5, 6]


def test_without_marks_every_row_is_of_no_step() -> None:
    assert host((), 1, 2) == [None, None]
    assert device((), (1, 1, 1), (2, 1, None)) == [None, None]


def test_rows_of_a_capture_without_launches_go_by_the_clock() -> None:
    assert device(MARKS, (50, 10, None), (150, 10, None), (250, 10, None)) == [5, 6, None]


def test_a_table_without_the_column_of_launches_goes_by_the_clock() -> None:
    rows = pl.DataFrame({"start_ns": [50, 150], "dur_ns": [1, 1]})
    assert own_device(marks(*MARKS), rows)["step"].to_list() == [5, 6]


def test_a_row_belongs_to_the_step_that_launched_it_however_late_it_runs() -> None:
    assert device(MARKS, (180, 100, 90), (500, 10, 101)) == [5, 6]


def test_a_row_launched_outside_every_mark_belongs_to_none() -> None:
    assert device(((5, 10, 90),), (20, 1, 5), (30, 1, 50)) == [None, 5]


def test_a_row_without_launch_goes_with_the_step_whose_work_it_stands_in() -> None:
    # The device runs behind: at 150 it still works for step 5.
    first = ((80, 10, 10), (200, 10, 20), (150, 5, None))
    second = ((300, 10, 110), (350, 10, 120), (320, 5, None))
    assert device(MARKS, *first, *second) == [5, 5, 5, 6, 6, 6]


def test_a_row_before_the_first_launched_one_belongs_to_no_step() -> None:
    assert device(MARKS, (10, 5, None), (80, 10, 10)) == [None, 5]


def test_a_row_behind_the_last_work_and_the_last_mark_belongs_to_none() -> None:
    assert device(MARKS, (80, 10, 10), (150, 10, 110), (199, 1, None), (200, 1, None)) == [5, 6, 6, None]


def test_a_row_launched_outside_the_capture_opens_no_step() -> None:
    assert device(((5, 100, 100),), (20, 500, 7), (150, 10, 120), (120, 1, None)) == [None, 5, None]


def test_no_rows_give_no_rows() -> None:
    assert device(MARKS) == []
    assert device(()) == []
    assert host(MARKS) == []


def test_the_column_is_of_whole_numbers_even_when_all_are_missing() -> None:
    rows = own_host(marks(), pl.DataFrame({"start_ns": [1]}))
    assert rows.schema["step"] == pl.Int64


ROWS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40), st.integers(0, 300)), max_size=12)


@given(ROWS, st.lists(st.integers(1, 60), max_size=4), st.integers(0, 50))
def test_launched_rows_agree_with_a_search_through_all_marks(
    rows: list[tuple[int, int, int]], lengths: list[int], first: int
) -> None:
    steps, at = [], first
    for number, length in enumerate(lengths):
        steps.append((number, at, length))
        at += length + number
    wanted = [next((n for n, start, length in steps if start <= row[2] < start + length), None) for row in rows]
    assert device(tuple(steps), *rows) == wanted
