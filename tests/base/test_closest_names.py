"""The names that somebody may have meant come first."""

from __future__ import annotations

import time

from hermes.base.closest_names import closest


def test_what_is_alike_comes_first_and_the_rest_in_its_order() -> None:
    names = ["aten::add", "MatMulV2", "aten::mm", "MatMul"]
    assert closest("matmull*", names) == ["MatMul", "MatMulV2", "aten::add", "aten::mm"]
    assert closest("zebra", names, most=2) == ["aten::add", "MatMulV2"]
    assert closest("zebra", []) == []


def test_many_long_names_take_no_time() -> None:
    began = time.monotonic()
    closest("*a" * 190, [f"{'a*' * 100}{number}" for number in range(50_000)])
    assert time.monotonic() - began < 20
