"""Samples tell the line inside a function at which a leaf's time passes."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.profiles.measure.leaves.sampled_lines import SampledLines

NAMES = ("train.py(9): <module>", "net.py(3): forward", "net.py(20): forward", "aten::mm", "net.py(40): loss")


def line_of(place: int, leaf: int, *samples: tuple[int, str]) -> str | None:
    rows = pl.DataFrame(samples, schema={"start_ns": pl.Int64, "line": pl.String}, orient="row")
    rows = rows.with_columns(ns=pl.lit(4))
    # Leaf 1 lasts from 0 to 100, leaf 2 from 100 to 200.
    edges = (np.array([0, 100]), np.array([100, 100]), np.array([1, 2]))
    return SampledLines(rows, NAMES, {NAMES[0]}).within(*edges).line_of(leaf, place)


def test_of_a_function_that_was_open_the_sampled_line_counts_and_not_the_one_at_which_the_capture_began() -> None:
    samples = ((10, "train.py(5): <module>"), (20, "train.py(5): <module>"), (150, "train.py(7): <module>"))
    assert line_of(0, 1, *samples) == "train.py:5 `<module>`"
    assert line_of(0, 2, *samples) == "train.py:7 `<module>`"


def test_without_a_sample_in_the_leaf_all_samples_of_the_function_decide() -> None:
    assert line_of(4, 1, (150, "net.py(44): loss"), (400, "net.py(44): loss")) == "net.py:44 `loss`"


def test_functions_of_one_name_are_told_apart_by_the_lines_at_which_they_begin() -> None:
    samples = ((10, "net.py(5): forward"), (20, "net.py(5): forward"), (30, "net.py(25): forward"))
    assert line_of(1, 1, *samples) == "net.py:5 `forward`"
    assert line_of(2, 1, *samples) == "net.py:25 `forward`"


def test_what_was_not_sampled_keeps_its_recorded_line() -> None:
    assert line_of(4, 1, (10, "train.py(5): <module>")) is None
    assert line_of(3, 1, (10, "train.py(5): <module>")) is None
    assert line_of(4, 1) is None
