"""Triangles that are the mask of attention: which operators make them, and which read them."""

from __future__ import annotations

import pytest
from tests.diagnose.rows import operator

from hermes.analyze.compute_measures import OperatorCost
from hermes.analyze.masks import triangle_masks

QUERY = "2,4,96,16"
FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"


def cut(shape: str, name: str = "aten::tril") -> OperatorCost:
    return operator(name, "elementwise", 10, shapes=f"{shape};")


def read(mask: str) -> OperatorCost:
    return operator(FORWARD, "attention", 10, shapes=f"{QUERY};{QUERY};{QUERY};;;{mask};")


def test_a_mask_has_the_operators_that_make_it_and_those_that_read_it() -> None:
    made, first, second = cut("96,96"), read("96,96"), read("2,1,96,96")
    larger, smaller = triangle_masks([made, first, second, cut("48,48")])[0], triangle_masks([made, first])[0]
    assert (larger.shape, larger.made, larger.read) == ((2, 1, 96, 96), (made,), (second,))
    assert (smaller.shape, smaller.made, smaller.read) == ((96, 96), (made,), (first,))


def test_an_operator_makes_one_mask() -> None:
    rows = [cut("96,96"), read("96,96"), read("2,1,96,96")]
    assert [one.shape for one in triangle_masks(rows)] == [(2, 1, 96, 96)]


def test_lengths_that_vary_have_a_mask_each() -> None:
    other = operator(FORWARD, "attention", 10, shapes=f"{QUERY};{QUERY};{QUERY};;;64,64;".replace("96", "64"))
    masks = triangle_masks([cut("64,64"), cut("96,96", "aten::tril_"), other, read("96,96")])
    assert [one.shape for one in masks] == [(96, 96), (64, 64)]


@pytest.mark.parametrize("shapes", ["", ";;;;;", "x;x;x;;;96,96;", f"{QUERY};{QUERY}", f"{QUERY};;;;;96;"])
def test_attention_without_a_square_reads_no_mask(shapes: str) -> None:
    assert triangle_masks([cut("96,96"), operator(FORWARD, "attention", 10, shapes=shapes)]) == ()
    assert triangle_masks([cut("96,96"), operator("aten::other", "attention", 10, shapes=read("96,96").shapes)]) == ()
