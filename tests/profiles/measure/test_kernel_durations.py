"""Kernels by duration: each in one group, whose bounds hold it, and all of the time in the groups together."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.measure.compute.kernel_durations import BOUNDS_NS, KernelDurations, durations


def grouped(*ns: int) -> list[KernelDurations]:
    return [*durations(3, pl.Series(ns, dtype=pl.Int64))]


def test_short_and_long_kernels_stand_apart() -> None:
    short, middle, long = grouped(900, 999, 1_000, 70_000_000)
    assert (short.least_ns, short.below_ns, short.kernels, short.ns) == (0, 1_000, 2, 1_899)
    assert (middle.least_ns, middle.below_ns, middle.kernels) == (1_000, 2_000, 1)
    assert (long.least_ns, long.below_ns, long.rank) == (50_000_000, None, 3)


def test_no_kernel_has_no_group_and_kernels_without_length_have_no_share() -> None:
    assert grouped() == []
    (only,) = grouped(0, 0)
    assert (only.kernels, only.ns, only.share) == (2, 0, 0.0)


@given(st.lists(st.integers(0, 2 * BOUNDS_NS[-1]), max_size=50))
def test_groups_hold_each_kernel_once_and_their_bounds_hold_them(ns: list[int]) -> None:
    rows = grouped(*ns)
    assert (sum(row.kernels for row in rows), sum(row.ns for row in rows)) == (len(ns), sum(ns))
    for row in rows:
        own = [one for one in ns if row.least_ns <= one and (row.below_ns is None or one < row.below_ns)]
        assert (len(own), sum(own)) == (row.kernels, row.ns)
