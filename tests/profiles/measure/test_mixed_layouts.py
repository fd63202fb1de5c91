"""Operators whose inputs lie in different orders, against those whose inputs agree."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.tensor_measures import MixedLayouts
from hermes.profiles.measure.tensors.mixed_layouts import disagree, mixed_layouts

SHAPE = "4,64,32,32"
DENSE, TURNED = "65536,1024,32,1", "65536,1,2048,64"
PAIR = f"{SHAPE};{SHAPE}"
MIXED = f"{DENSE};{TURNED}"


def found(*rows: tuple[str, str, str | None, int]) -> list[MixedLayouts]:
    calls = pl.DataFrame(rows, schema=["name", "shapes", "strides", "self_ns"], orient="row").with_columns(
        pl.col("strides").cast(pl.String), pl.col("shapes").str.replace_all(r"[\d,]+", "float").alias("dtypes")
    )
    return list(mixed_layouts(0, calls, 2))


def test_inputs_that_disagree_cost_what_they_take_beyond_those_that_agree() -> None:
    (row,) = found(("aten::mul", PAIR, MIXED, 400), ("aten::mul", PAIR, MIXED, 300), ("aten::mul", PAIR, None, 100))
    assert (row.operator, row.shapes, row.steps, row.calls, row.ns) == ("aten::mul", PAIR, 2, 2, 700)
    assert row.beyond_ns == 500


def test_without_the_same_operator_another_of_as_many_inputs_tells_the_time() -> None:
    (row,) = found(("aten::add_", PAIR, MIXED, 400), ("aten::mul", PAIR, None, 150))
    assert row.beyond_ns == 250


@pytest.mark.parametrize(
    ("shapes", "strides"),
    [
        (PAIR, f"{TURNED};{TURNED}"),
        (PAIR, None),
        (f"{SHAPE};{SHAPE}", f"{TURNED};0,0,32,1"),
        (f"{SHAPE};64", f"{TURNED};1"),
        (f"{SHAPE};4,64,1,1", f"{TURNED};64,1,1,1"),
        (SHAPE, TURNED),
        ("4,1,32,32;4,1,32,32", "1024,1024,32,1;1024,1,32,1"),
    ],
    ids=["channels last", "dense", "expanded", "vector", "broadcast", "alone", "axes of one"],
)
def test_inputs_that_share_an_order_or_have_none_agree(shapes: str, strides: str | None) -> None:
    assert not disagree(shapes, strides)
    assert not found(("aten::mul", shapes, strides, 400), ("aten::mul", PAIR, None, 100))


def test_a_copy_is_no_reader_and_a_small_call_no_cost() -> None:
    small = "8,16;8,16"
    assert not found(("aten::copy_", PAIR, MIXED, 400), ("aten::mul", PAIR, None, 100))
    assert not found(("aten::mul", small, "16,1;1,8", 400), ("aten::mul", small, None, 100))


def test_without_a_call_to_compare_with_nothing_is_said() -> None:
    far = "64,64,64,64;64,64,64,64"
    assert not found(("aten::mul", PAIR, MIXED, 400), ("aten::mul", far, None, 100))


@pytest.mark.parametrize("strides", ["", "x;y", "1,2;3", f"{DENSE}"])
def test_strides_that_do_not_fit_the_shapes_tell_nothing(strides: str) -> None:
    assert not disagree(PAIR, strides)
