"""Rows of kernels that could be one: named patterns, what breaks them, and short kernels that come again and again."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.structure.kernel_sequences import Unfused, in_order, repeated, unfused

_US = 1_000
Kernel = tuple[str, int, str]


def _kernels(*rows: Kernel, times: int = 1, gap_us: int = 0) -> pl.DataFrame:
    """Kernels one after the other, as often as asked: type, microseconds, input shapes."""
    made, clock = [], 0
    for number, (name, us, shapes) in enumerate(list(rows) * times):
        made.append(
            {"component": "compute", "type": name, "unit": "vector", "stream": 2, "start_ns": clock, "dur_ns": us * _US,
             "step": 1, "call": None, "input_shapes": shapes, "kernel_id": number}
        )  # fmt: skip
        clock += (us + gap_us) * _US
    schema = {"call": pl.Int64(), "input_shapes": pl.String()}
    return in_order(pl.DataFrame(made, schema_overrides=schema))


def _found(*rows: Kernel, times: int = 1) -> dict[str, Unfused]:
    return {one.pattern: one for one in unfused(0, _kernels(*rows, times=times))}


CONV, NORM, RELU = ("Conv2D", 100, ""), ("BNTrainingUpdate", 60, ""), ("Relu", 20, "")


def test_convolution_norm_and_activation_are_one_pattern_and_its_parts_no_other() -> None:
    found = _found(CONV, ("BNTrainingReduce", 30, ""), NORM, RELU, times=3)
    (one,) = found.values()
    assert (one.pattern, one.calls) == ("convolution, batch norm and activation", 3)
    assert one.operators == "Conv2D BNTrainingReduce BNTrainingUpdate Relu"
    assert (one.ns, one.saved_ns, one.moving_ns) == (630 * _US, 330 * _US, 60 * _US)


def test_what_stands_between_is_named_and_belongs_to_the_row() -> None:
    (one,) = _found(CONV, ("TransData", 15, ""), NORM, ("Cast", 5, ""), RELU).values()
    assert (one.operators, one.broken, one.broken_ns) == ("Conv2D BNTrainingUpdate Relu", "TransData, Cast", 20 * _US)


@pytest.mark.parametrize(
    ("shapes", "patterns"),
    [("64,128;128", ["product, bias and activation"]), ("64,128;64,128", []), ("64,1;1", []), ("64,128", [])],
)
def test_a_sum_is_a_bias_by_its_shape_alone(shapes: str, patterns: list[str]) -> None:
    assert list(_found(("MatMulV2", 100, ""), ("Add", 20, shapes), ("Gelu", 30, ""))) == patterns


def test_a_product_that_adds_its_bias_itself_is_no_pattern() -> None:
    assert _found(("MatMulV2", 100, ""), ("Relu", 20, "")) == {}


def test_the_last_kernel_of_a_stream_is_no_neighbour_of_the_next_one_s_first() -> None:
    rows = _kernels(CONV, NORM, RELU).with_columns(pl.Series("stream", [2, 3, 3]))
    assert unfused(0, rows) == ()


def test_short_kernels_in_a_row_are_one_sequence_of_the_longest_length() -> None:
    rows = _kernels(("Mul", 10, ""), ("Add", 10, ""), ("Sqrt", 5, ""), ("MatMulV2", 200, ""), times=8)
    (one,) = repeated(0, rows)
    assert (one.operators, one.calls, one.ns, one.bound) == ("Mul Add Sqrt", 8, 8 * 25 * _US, "memory")
    assert one.saved_ns == 8 * 15 * _US


def test_gaps_between_short_kernels_are_the_host_s() -> None:
    rows = _kernels(("Mul", 10, ""), ("Add", 10, ""), ("Sqrt", 10, ""), ("MatMulV2", 200, ""), times=8, gap_us=40)
    (one,) = repeated(0, rows)
    assert (one.bound, one.wall_ns) == ("host", 8 * 110 * _US)


def test_what_comes_seldom_or_takes_long_is_no_sequence() -> None:
    assert (
        repeated(0, _kernels(("Mul", 10, ""), ("Add", 10, ""), ("Sqrt", 5, ""), ("MatMulV2", 200, ""), times=5)) == ()
    )
    assert repeated(0, _kernels(("Mul", 90, ""), ("Add", 90, ""), ("Sqrt", 90, ""), times=9)) == ()


def test_nothing_is_found_in_nothing() -> None:
    rows = _kernels(CONV).clear()
    assert (unfused(0, rows), repeated(0, rows)) == ((), ())
