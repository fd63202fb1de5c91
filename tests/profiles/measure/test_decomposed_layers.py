"""Layers that are put together from parts, told by names, shapes and calls."""

from __future__ import annotations

import pytest
from tests.profiles.rules.rows import operator

from hermes.model.compute_measures import OperatorCost
from hermes.profiles.measure.compute.decomposed_layers import Pattern, patterns


def row(name: str, shapes: str, ns: int, calls: int = 4, kind: str = "elementwise", rank: int = 0) -> OperatorCost:
    return operator(name, kind, ns, shapes=shapes, calls=calls, ranks=(rank,))


NORM = (
    row("aten::pow", "16,559,1024;", 13),
    row("aten::mean", "16,559,1024;;;", 7),
    row("aten::rsqrt", "16,559,1", 1),
    row("aten::mul", "16,559,1024;16,559,1", 16),
    row("aten::mul", "1024;16,559,1024", 12),
)
ROTARY = (
    row("aten::neg", "16,16,559,32", 6),
    row("aten::cat", "16,16,559,32;16,16,559,32;", 20, kind="copy"),
    row("aten::mul", "16,16,559,64;1,1,559,64", 27, calls=8),
    row("aten::add", "16,16,559,64;16,16,559,64;", 17),
)
SWIGLU = (row("aten::silu", "16,559,2816", 9), row("aten::mul", "16,559,2816;16,559,2816", 12))
ATTENTION = (
    row("aten::_softmax", "2,16,512,512;;", 30, kind="softmax"),
    row("aten::bmm", "32,512,64;32,64,512", 50, kind="batched matmul"),
    row("aten::div", "2,16,512,512;", 10),
)


def one(*rows: OperatorCost) -> Pattern:
    (found,) = patterns(rows)
    return found


def test_a_norm_of_its_parts_is_told_and_saves_all_but_the_longest() -> None:
    found = one(*NORM)
    assert (found.layer, found.saved_ns, len(found.parts)) == ("RMSNorm", 49 - 16, 5)


def test_ascends_types_are_the_same_parts() -> None:
    names = ("Pows", "ReduceMeanD", "Rsqrt", "Mul", "Mul")
    renamed = [row(name, part.shapes, part.ns) for name, part in zip(names, NORM, strict=True)]
    assert one(*renamed).layer == "RMSNorm"


def test_rotary_embedding_is_told_by_its_halves() -> None:
    found = one(*ROTARY)
    assert (found.layer, found.saved_ns) == ("rotary embedding", 70 - 27)


def test_a_gate_times_its_twin_is_swiglu() -> None:
    found = one(*SWIGLU)
    assert (found.layer, found.saved_ns) == ("SwiGLU", 9)


def test_scores_that_are_written_are_saved_whole_and_products_are_not() -> None:
    found = one(*ATTENTION)
    assert (found.layer, found.saved_ns) == ("attention", 40)
    assert "aten::bmm" not in {part.operator for part in found.parts}


@pytest.mark.parametrize("whole", [NORM, ROTARY, SWIGLU, ATTENTION[:2]], ids=["norm", "rotary", "swiglu", "attention"])
def test_without_a_part_there_is_no_pattern(whole: tuple[OperatorCost, ...]) -> None:
    # The weight of a norm is the one part that may be missing.
    needed = whole[:4]
    for missing in needed:
        assert patterns([part for part in needed if part is not missing]) == ()


def test_other_calls_shapes_or_ranks_make_no_pattern() -> None:
    silu, gate = SWIGLU
    for other in (
        row("aten::mul", gate.shapes, 12, calls=5),
        row("aten::mul", "16,559,2816;1", 12),
        row("aten::mul", gate.shapes, 12, rank=1),
    ):
        assert patterns([silu, other]) == ()
    classes = row("aten::_softmax", "16,8,10", 30, kind="softmax")
    assert patterns([classes, ATTENTION[1]]) == ()


def test_an_operator_belongs_to_one_pattern_only() -> None:
    found = patterns([*NORM, *ROTARY, *SWIGLU, *ATTENTION])
    parts = [id(part) for pattern in found for part in pattern.parts]
    assert len(parts) == len(set(parts))
    assert {pattern.layer for pattern in found} == {"RMSNorm", "rotary embedding", "SwiGLU", "attention"}


def test_two_gates_with_one_twin_are_one_layer() -> None:
    silu, gate = SWIGLU
    assert len(patterns([silu, row("aten::silu", silu.shapes, 9), gate])) == 1
