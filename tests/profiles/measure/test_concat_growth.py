"""What a join makes, told by shapes, and which joins append nothing."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.profiles.measure.tensors.concat_growth import concatenation_of, kept_concats


@pytest.mark.parametrize("operator", ["aten::cat", "aten::_cat", "Concat", "ConcatD", "ConcatV2", "ConcatV2D"])
def test_a_join_is_as_long_as_its_parts_on_one_axis(operator: str) -> None:
    one = concatenation_of(operator, "4,1,8;4,196,8;")
    assert one is not None
    assert (one.shape, one.text, one.largest, one.elements) == ((4, 197, 8), "4,197,8", 6_272, 6_304)


@pytest.mark.parametrize("shapes", ["", ";", "4,8;", "4,8;4", "4,8;4,8", "4,8;2,6", "4,8;x", f"4,8;{'9' * 5_000}"])
def test_what_is_no_join_of_two_unlike_tensors_has_no_shape(shapes: str) -> None:
    assert concatenation_of("aten::cat", shapes) is None


def test_other_operators_join_nothing() -> None:
    assert concatenation_of("aten::add", "4,8;2,8") is None
    assert concatenation_of("aten::catenate", "4,8;2,8") is None


def test_the_backward_of_a_join_and_what_is_rolled_tell_its_shape() -> None:
    rows = [("CatBackward0", "4,197,8"), ("CatBackward0", "4,197,8"), ("CatBackward0", ""), ("CatBackward0", None),
            ("AddBackward0", "4,8"), ("aten::roll", "9,8;;")]  # fmt: skip
    calls = pl.DataFrame(rows, schema={"name": pl.String, "shapes": pl.String}, orient="row")
    assert [(one.rank, one.shape) for one in kept_concats(3, calls)] == [(3, "4,197,8"), (3, "9,8")]
