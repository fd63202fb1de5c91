"""Operators that compute on the host itself, beside a device."""

from __future__ import annotations

import polars as pl

from hermes.base.intervals import window
from hermes.profiles.measure.host.select_host_calls import computing_calls, intervals_by_reason

SCHEMA = {name: pl.String for name in ("kind", "name")} | {
    name: pl.Int64 for name in ("pid", "tid", "start_ns", "dur_ns")
}
LAUNCHES = ("op", "aten::mm", 0, 150_000), ("runtime", "cudaLaunchKernel", 20_000, 5_000)
MAKES = ("op", "aten::randn", 200_000, 3_500_000), ("op", "aten::normal_", 210_000, 3_400_000)


def calls(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    made = [(kind, name, 1, 7, start, length) for kind, name, start, length in rows]
    return pl.DataFrame(made, schema=SCHEMA, orient="row")


def named(rows: pl.DataFrame) -> list[str]:
    return computing_calls(rows)["name"].to_list()


def test_a_long_operator_without_a_launch_computes_and_the_outermost_is_named() -> None:
    assert named(calls(*LAUNCHES, *MAKES)) == ["aten::randn"]


def test_a_short_one_is_handed_over_or_a_view() -> None:
    assert named(calls(*LAUNCHES, ("op", "aten::randn", 200_000, 99_999))) == []


def test_one_with_a_launch_or_a_place_in_a_queue_does_not() -> None:
    assert named(calls(*LAUNCHES, *MAKES, ("runtime", "cudaLaunchKernel", 300_000, 5_000))) == []
    assert named(calls(*LAUNCHES, *MAKES, ("enqueue", "Enqueue", 300_000, 5_000))) == []


def test_what_reads_a_number_back_waits() -> None:
    assert named(calls(*LAUNCHES, ("op", "aten::_local_scalar_dense", 200_000, 900_000))) == []


def test_what_makes_a_batch_is_input() -> None:
    fetch = ("op", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 190_000, 3_600_000)
    assert named(calls(*LAUNCHES, fetch, *MAKES)) == []


def test_where_few_calls_of_the_runtime_are_recorded_it_is_not_known() -> None:
    many = [("op", "aten::add", 10_000_000 + at, 1) for at in range(20)]
    assert named(calls(*LAUNCHES, *MAKES, *many)) == []


def test_its_time_is_a_reason_of_its_own_and_none_of_dispatch() -> None:
    rows = calls(*LAUNCHES, *MAKES)
    gc = rows.head(0)
    found = {reason: when.total for reason, when in intervals_by_reason(window(0, 3_700_000), rows, gc) if when.total}
    assert found == {"computing": 3_500_000, "launching": 5_000, "operators": 145_000, "outside any call": 50_000}
