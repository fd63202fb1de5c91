"""The interval algebra against a plain set of nanoseconds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.intervals import EMPTY, Intervals, covered_lengths, exclusive, union_of_intervals, window

Pairs = list[tuple[int, int]]

# Ends may lie before starts: such intervals are empty.
PAIRS = st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=8)
FAR = 1_736_412_474_721_169_590


def build(pairs: Pairs, shift: int = 0) -> Intervals:
    starts = np.array([start + shift for start, _ in pairs], dtype=np.int64)
    return union_of_intervals(starts, np.array([end + shift for _, end in pairs], dtype=np.int64))


def points(pairs: Pairs) -> set[int]:
    return {moment for start, end in pairs for moment in range(start, end)}


def listed(intervals: Intervals) -> Pairs:
    return list(zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True))


def is_flat(intervals: Intervals) -> bool:
    """Sorted, nothing empty, a gap between every two."""
    edges = [edge for pair in listed(intervals) for edge in pair]
    return all(before < after for before, after in pairwise(edges))


@given(PAIRS)
def test_the_union_holds_exactly_the_moments_of_its_parts(pairs: Pairs) -> None:
    union = build(pairs)
    assert points(listed(union)) == points(pairs)
    assert union.total == len(points(pairs))
    assert is_flat(union)


@given(PAIRS, PAIRS)
def test_or_and_minus_agree_with_sets_of_nanoseconds(left: Pairs, right: Pairs) -> None:
    a, b = build(left), build(right)
    for result, wanted in (
        (a | b, points(left) | points(right)),
        (a & b, points(left) & points(right)),
        (a - b, points(left) - points(right)),
    ):
        assert points(listed(result)) == wanted
        assert is_flat(result)


@given(PAIRS, PAIRS)
def test_union_and_intersection_add_up_to_both_parts(left: Pairs, right: Pairs) -> None:
    a, b = build(left), build(right)
    assert (a | b).total + (a & b).total == a.total + b.total


@given(PAIRS, PAIRS)
def test_the_order_of_the_parts_does_not_matter(left: Pairs, right: Pairs) -> None:
    a, b = build(left), build(right)
    assert listed(a | b) == listed(b | a)
    assert listed(a & b) == listed(b & a)
    assert listed(build(left + right)) == listed(build(right[::-1] + left[::-1]))


@given(PAIRS)
def test_a_set_with_itself_is_itself_and_without_itself_is_nothing(pairs: Pairs) -> None:
    a = build(pairs)
    assert listed(a | a) == listed(a & a) == listed(a)
    assert not len(a - a)


@given(PAIRS, PAIRS)
def test_a_difference_and_an_intersection_split_a_set(left: Pairs, right: Pairs) -> None:
    a, b = build(left), build(right)
    assert (a - b).total + (a & b).total == a.total
    assert not len((a - b) & b)
    assert listed((a - b) | (a & b)) == listed(a)


@given(PAIRS, PAIRS, PAIRS, st.integers(-20, 20), st.integers(0, 30))
def test_a_window_is_compute_exposed_parts_and_free(
    compute: Pairs, comm: Pairs, copy: Pairs, start: int, length: int
) -> None:
    frame = window(start, start + length)
    k, n, c = (build(part).clip(start, start + length) for part in (compute, comm, copy))
    parts = (k, n - k, c - k - n, frame - k - n - c)
    assert sum(part.total for part in parts) == length


@given(PAIRS, PAIRS)
def test_a_shift_to_the_time_of_an_epoch_changes_no_length(left: Pairs, right: Pairs) -> None:
    near = build(left) - build(right)
    far = build(left, FAR) - build(right, FAR)
    assert [(start - FAR, end - FAR) for start, end in listed(far)] == listed(near)


@given(PAIRS, st.integers(-25, 25), st.integers(-25, 25))
def test_clip_keeps_what_lies_inside(pairs: Pairs, start: int, end: int) -> None:
    clipped = build(pairs).clip(start, end)
    assert points(listed(clipped)) == points(pairs) & set(range(start, end))
    assert is_flat(clipped)


@given(PAIRS)
def test_the_span_runs_from_the_first_start_to_the_last_end(pairs: Pairs) -> None:
    moments = points(pairs)
    assert build(pairs).span == ((min(moments), max(moments) + 1) if moments else None)


def test_touching_intervals_become_one() -> None:
    assert listed(build([(0, 5), (5, 9)])) == [(0, 9)]


def test_intervals_one_nanosecond_apart_stay_two() -> None:
    assert listed(build([(0, 5), (6, 9)])) == [(0, 5), (6, 9)]


@pytest.mark.parametrize("pairs", [[], [(3, 3)], [(5, 2)], [(3, 3), (3, 3)]])
def test_intervals_without_length_make_an_empty_set(pairs: Pairs) -> None:
    empty = build(pairs)
    assert (len(empty), empty.total, empty.span) == (0, 0, None)


def test_an_interval_inside_another_adds_nothing() -> None:
    assert listed(build([(0, 10), (2, 4), (3, 10)])) == [(0, 10)]


def test_the_empty_set_is_neutral() -> None:
    a = build([(0, 4), (6, 9)])
    assert listed(a | EMPTY) == listed(EMPTY | a) == listed(a - EMPTY) == listed(a)
    assert not len(a & EMPTY)
    assert not len(EMPTY & a)
    assert not len(EMPTY - a)


def test_a_hole_of_one_nanosecond_is_cut_out() -> None:
    assert listed(window(0, 10) - window(4, 5)) == [(0, 4), (5, 10)]


def test_lengths_near_the_limit_of_64_bits_are_exact() -> None:
    assert (window(FAR, FAR + 1) | window(0, 1)).total == 2


def test_the_inputs_are_not_changed() -> None:
    starts, ends = np.array([5, 0], dtype=np.int64), np.array([9, 2], dtype=np.int64)
    union_of_intervals(starts, ends).clip(1, 6)
    assert (starts.tolist(), ends.tolist()) == ([5, 0], [9, 2])


@given(st.lists(PAIRS, max_size=5), st.integers(-22, 22), st.integers(0, 40))
def test_the_exclusive_times_of_all_combinations_add_up_to_the_window(
    sets: list[Pairs], start: int, length: int
) -> None:
    held = exclusive([build(pairs, FAR) for pairs in sets], FAR + start, FAR + start + length)
    assert sum(held.values()) == length
    wanted: dict[int, int] = {}
    for moment in range(start, start + length):
        key = sum(1 << bit for bit, pairs in enumerate(sets) if moment in points(pairs))
        wanted[key] = wanted.get(key, 0) + 1
    assert held == wanted


def test_more_sets_than_a_key_has_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 62"):
        exclusive([EMPTY] * 63, 0, 10)
    assert exclusive([build([(0, 4)])] * 62, 0, 10) == {0: 6, 2**62 - 1: 4}


@given(PAIRS, PAIRS)
def test_what_is_covered_of_each_stretch_is_what_lies_in_the_set(inside: Pairs, stretches: Pairs) -> None:
    starts = np.array([start + FAR for start, _ in stretches], dtype=np.int64)
    ends = np.array([end + FAR for _, end in stretches], dtype=np.int64)
    found = covered_lengths(build(inside, FAR), starts, ends)
    assert found.tolist() == [len(points(inside) & set(range(start, end))) for start, end in stretches]
