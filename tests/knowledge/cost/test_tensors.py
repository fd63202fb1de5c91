"""Shapes as the texts of traces hold them; what is no shape harms nothing."""

from __future__ import annotations

import pytest

from hermes.knowledge.cost.tensors import elements_of


@pytest.mark.parametrize(("text", "count"), [("2,3", 6), ("7", 7), ("0,5", 0), ("", 0), ("a,2", 0), ("9" * 5_000, 0)])
def test_a_text_that_is_no_shape_has_no_elements(text: str, count: int) -> None:
    assert elements_of(text) == count
