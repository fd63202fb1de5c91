"""Which shapes are those of rows that are spread out over all their pairs."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.analyze.spread_pairs import Shape, spread, spread_by, spread_pairs


@pytest.mark.parametrize(
    ("first", "second", "pairs"),
    [
        ((9, 1, 4), (1, 8, 4), (9, 8, 4)),
        ((1, 8, 4), (9, 1, 4), (9, 8, 4)),
        ((9, 1, 4), (8, 4), (9, 8, 4)),
        ((2, 9, 1, 4), (2, 1, 8, 4), (2, 9, 8, 4)),
        ((2, 9, 1, 4), (1, 1, 8, 4), (2, 9, 8, 4)),
        ((2, 9, 1, 4), (3, 1, 8, 4), None),  # unlike batches
        ((9, 1, 4), (1, 8, 3), None),
        ((9, 1, 1), (1, 8, 1), None),
        ((9, 1, 4), (9, 8, 4), None),
        ((9, 1, 4), (1, 7, 4), None),
        ((9, 1), (1, 8), None),
        ((9, 4), (8, 4), None),
    ],
)
def test_all_pairs_have_the_rows_of_both(first: Shape, second: Shape, pairs: Shape | None) -> None:
    assert spread(first, second) == pairs


@pytest.mark.parametrize("shapes", ["", ";", "9,1,4", "9,1,4;x", f"9,1,4;1,{'8' * 5_000},4"])
def test_calls_without_two_shapes_spread_nothing(shapes: str) -> None:
    assert spread_by(shapes) is None


def told(*rows: tuple[str, str | None]) -> list[str]:
    calls = pl.DataFrame(rows, schema={"name": pl.String, "shapes": pl.String}, orient="row")
    return [one.shape for one in spread_pairs(0, calls)]


def test_cosines_and_pairs_of_expanded_tensors_are_told() -> None:
    assert told(("aten::cosine_similarity", "9,1,4;8,4;;"), ("aten::cosine_similarity", "9,4;9,4;;")) == ["9,8,4"]
    assert told(("aten::expand", "9,1,4;;"), ("aten::expand", "1,8,4;;"), ("aten::expand", "16;;")) == ["9,8,4"]
    assert told(("aten::expand", "9,1,4;;"), ("aten::expand", None), ("aten::mul", "1,8,4;;")) == []
