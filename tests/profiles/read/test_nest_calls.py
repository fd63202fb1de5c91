"""Depth and self time of calls against a plain model that looks at every pair."""

from __future__ import annotations

import random
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.read import nest_calls as nesting
from hermes.profiles.read.nest_calls import nest

Call = tuple[int | None, int | None, str, int, int]

LANE = st.sampled_from([(1, 1, "op"), (1, 1, "python"), (1, 1, "acl"), (1, 2, "op"), (2, 1, "op"), (None, None, "op")])
BELOW = ("acl", "node", "model", "hccl", "runtime", "driver")
CALLS = st.lists(st.tuples(LANE, st.integers(0, 30), st.integers(0, 12)), max_size=12).map(
    lambda rows: [(*lane, start, length) for lane, start, length in rows]
)
ONE_THREAD = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12).map(
    lambda rows: [(1, 1, "op", start, length) for start, length in rows]
)
SCHEMA = {
    "pid": pl.Int64,
    "tid": pl.Int64,
    "kind": pl.String,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "name": pl.Int64,
}


def frame(calls: list[Call]) -> pl.DataFrame:
    return pl.DataFrame([(*call, name) for name, call in enumerate(calls)], schema=SCHEMA, orient="row")


def nested(*calls: tuple[int, int]) -> list[tuple[int, int]]:
    """Depth and self time of calls of one thread, given as (start, length), in the order given."""
    rows = nest(frame([(1, 1, "op", start, length) for start, length in calls])).sort("name")
    return list(rows.select("depth", "self_ns").iter_rows())


def test_a_mark_that_outlasts_the_call_which_opened_it_lies_in_that_ones_caller() -> None:
    caller, opens, mark, inside = (0, 100_000), (10_000, 5_000), (12_000, 80_000), (20_000, 60_000)
    assert [own for _, own in nested(caller, opens, mark, inside)] == [15_000, 5_000, 20_000, 60_000]


def model(calls: list[Call]) -> dict[int, tuple[int, int]]:
    """Depth and self time by name: a call's parent is the latest of its thread and layer that is open."""
    lanes = [(pid, tid, kind in BELOW) for pid, tid, kind, _, _ in calls]
    spans = [(start, start + length) for *_, start, length in calls]
    order = sorted(range(len(calls)), key=lambda i: (spans[i][0], -spans[i][1], i))
    own = {i: spans[i][1] - spans[i][0] for i in order}
    depth: dict[int, int] = {}
    for place, i in enumerate(order):
        start, end = spans[i]
        parents = [j for j in order[:place] if lanes[j] == lanes[i] and spans[j][1] > start]
        depth[i] = depth[parents[-1]] + 1 if parents else 0
        if parents:
            own[parents[-1]] -= min(end, spans[parents[-1]][1]) - start
    return {i: (depth[i], own[i]) for i in order}


@given(CALLS)
def test_depth_and_self_time_agree_with_the_plain_model(calls: list[Call]) -> None:
    rows = nest(frame(calls))
    assert {name: (depth, own) for name, depth, own in rows.select("name", "depth", "self_ns").iter_rows()} == model(
        calls
    )


@given(ONE_THREAD, st.sampled_from([1, 64]))
def test_setting_leaves_apart_changes_nothing(calls: list[Call], climbs: int) -> None:
    with mock.patch.multiple(nesting, _FEW=1, _WORTH_PARTING=100, _MOST_CLIMBS=climbs):
        rows = nest(frame(calls))
    assert {name: (depth, own) for name, depth, own in rows.select("name", "depth", "self_ns").iter_rows()} == model(
        calls
    )


@pytest.mark.parametrize("deep", [3, 200], ids=["flat", "deeper than leaves may climb"])
def test_a_thread_of_many_calls_agrees_with_the_plain_model(deep: int) -> None:
    # Chains of calls that close one by one or all at once, and leaves anywhere within and behind, some ending late.
    dice = random.Random(deep)
    calls: list[Call] = []
    for chain in range(900 // deep):
        begin = chain * 10 * deep
        calls += [(1, 1, "op", begin + level, 8 * deep - (5 if chain % 2 else 1) * level) for level in range(deep)]
        calls += [(1, 1, "op", begin + dice.randrange(9 * deep), dice.randrange(deep)) for _ in range(deep // 2)]
    rows = nest(frame(calls))
    assert {name: (depth, own) for name, depth, own in rows.select("name", "depth", "self_ns").iter_rows()} == model(
        calls
    )


@given(CALLS)
def test_rows_come_by_start_and_longer_first_and_are_numbered(calls: list[Call]) -> None:
    rows = nest(frame(calls))
    keys = [(start, -length) for start, length in rows.select("start_ns", "dur_ns").iter_rows()]
    assert keys == sorted(keys)
    assert rows["op_id"].to_list() == list(range(len(calls)))


@given(CALLS)
def test_no_call_has_less_than_no_time_of_its_own(calls: list[Call]) -> None:
    rows = nest(frame(calls))
    assert rows.filter((pl.col("self_ns") < 0) | (pl.col("self_ns") > pl.col("dur_ns"))).is_empty()


def test_a_child_takes_its_time_from_its_parent_alone() -> None:
    assert nested((0, 10), (2, 6), (3, 2)) == [(0, 4), (1, 4), (2, 2)]


def test_siblings_that_touch_are_not_inside_each_other() -> None:
    assert nested((0, 10), (0, 5), (5, 5)) == [(0, 0), (1, 5), (1, 5)]


def test_a_call_that_starts_where_another_ends_is_not_inside_it() -> None:
    assert nested((0, 5), (5, 5)) == [(0, 5), (0, 5)]


def test_of_two_calls_with_one_start_the_longer_is_the_parent() -> None:
    assert nested((0, 3), (0, 8)) == [(1, 3), (0, 5)]


def test_of_two_equal_calls_the_first_recorded_is_the_parent() -> None:
    assert nested((0, 8), (0, 8)) == [(0, 0), (1, 8)]


def test_only_the_part_inside_is_taken_from_a_parent_that_ends_earlier() -> None:
    assert nested((0, 10), (8, 5)) == [(0, 8), (1, 5)]


def test_a_call_of_no_length_is_inside_and_encloses_nothing() -> None:
    assert nested((0, 10), (4, 0), (4, 0), (5, 3)) == [(0, 7), (1, 0), (1, 0), (1, 3)]


def test_threads_of_one_number_in_two_processes_are_two() -> None:
    rows = nest(frame([(1, 7, "op", 0, 10), (2, 7, "op", 2, 3)])).sort("name")
    assert rows["depth"].to_list() == [0, 0]


def test_interleaved_threads_do_not_disturb_each_other() -> None:
    rows = nest(frame([(1, 1, "op", 0, 10), (1, 2, "op", 1, 10), (1, 1, "op", 2, 3), (1, 2, "op", 4, 5)])).sort("name")
    assert rows.select("depth", "self_ns").rows() == [(0, 7), (0, 5), (1, 3), (1, 5)]


@pytest.mark.parametrize("kind", BELOW)
def test_an_operator_keeps_the_time_of_the_runtime_calls_it_makes(kind: str) -> None:
    rows = nest(frame([(1, 1, "op", 0, 10), (1, 1, kind, 2, 6), (1, 1, kind, 3, 2)])).sort("name")
    assert rows.select("depth", "self_ns").rows() == [(0, 10), (0, 4), (1, 2)]


@pytest.mark.parametrize("kind", ["python", "mark", "enqueue", "dequeue", "step"])
def test_all_kinds_of_the_framework_are_one_layer(kind: str) -> None:
    rows = nest(frame([(1, 1, kind, 0, 10), (1, 1, "op", 2, 6)])).sort("name")
    assert rows.select("depth", "self_ns").rows() == [(0, 4), (1, 6)]


def test_a_given_tie_orders_rows_that_are_else_equal() -> None:
    rows = nest(frame([(1, 1, "op", 0, 8), (1, 1, "op", 0, 8)]).with_columns(tie=pl.Series([2, 1]))).sort("name")
    assert rows["depth"].to_list() == [1, 0]
    assert "tie" not in rows.columns


def test_times_of_an_epoch_are_exact() -> None:
    epoch = 1_736_412_474_721_169_591
    assert nested((epoch, 3), (epoch + 1, 1)) == [(0, 2), (1, 1)]


def test_no_calls_give_a_frame_with_the_columns() -> None:
    rows = nest(frame([]))
    assert rows.height == 0
    assert {"op_id", "depth", "self_ns"} <= set(rows.columns)
