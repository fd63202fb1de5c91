"""A comparison names the operator whose inputs agree and whose outputs do not, and nothing where all is rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.drawn import Drawing, random

from hermes.base.errors import InputError
from hermes.precision.api import Comparison, compare, document

ULP = 2.0**-23


def network(folder: Path, *, tensors: bool = False, rank: int = 0, whole: bool = True, **changed: Any) -> Path:
    """Three products with a `tanh` between them; `changed` says what is done to the result of one."""
    draw = Drawing(folder, tensors=tensors, rank=rank)
    change = {name: changed.get(name, lambda array: array) for name in ("x", "mm0", "tanh0", "mm1", "tanh1")}
    x_array = change["x"](random(0, 8, 16))
    x = draw.value(x_array)
    for layer in range(2):
        weight_array = random(layer + 1, 16, 16) / 4
        weight = draw.value(weight_array, name=f"Net.{layer}.weight", role="parameter")
        y_array = change[f"mm{layer}"]((x_array @ weight_array).astype(np.float32))
        (y,) = draw.op("aten.mm.default", [x, weight], y_array, module=f"Net.{layer}", line=10 + layer)
        if changed.get("insert") == layer:
            (y,) = draw.op("aten.add.Tensor", [y], y_array, module=f"Net.{layer}", args=["@0", 0.0], line=30)
        if changed.get("double") == layer:
            y_array = y_array * 2
            (y,) = draw.op("aten.mul.Tensor", [y], y_array, module=f"Net.{layer}", args=["@0", 2.0], line=31)
        x_array = change[f"tanh{layer}"](np.tanh(y_array))
        args = ["@0", *([changed["args"]] if "args" in changed and layer == 1 else [])]
        (x,) = draw.op("aten.tanh.default", [y], x_array, module=f"Net.{layer}", args=args, line=20 + layer)
    draw.op("aten.sum.default", [x], x_array.sum().reshape(()))
    return draw.close(whole=whole)


def both(tmp_path: Path, *, tensors: bool = False, **changed: Any) -> Comparison:
    return compare(
        network(tmp_path / "golden", tensors=tensors), network(tmp_path / "target", tensors=tensors, **changed), jobs=1
    )


KINDS = pytest.mark.parametrize("tensors", [False, True], ids=["statistics", "tensors"])


@KINDS
def test_equal_runs_agree_in_every_bit(tmp_path: Path, tensors: bool) -> None:
    found = both(tmp_path, tensors=tensors)
    assert (found.verdict, found.first) == ("agree", None)
    assert "in every bit" in found.sentence


@KINDS
def test_the_operator_with_another_result_is_named_with_its_line(tmp_path: Path, tensors: bool) -> None:
    found = both(tmp_path, tensors=tensors, mm1=lambda y: y + random(9, 8, 16) / 1000)
    assert found.first is not None
    assert (found.first.operator, found.first.module, found.first.line) == ("aten.mm.default", "Net.1", "train.py:11")
    assert (found.first.rank, found.first.step, found.first.phase) == (0, 0, "forward")


@KINDS
def test_rounding_in_every_operator_is_no_difference(tmp_path: Path, tensors: bool) -> None:
    def rounded(array: np.ndarray) -> np.ndarray:
        return (array * (1 + ULP * np.sign(random(7, *array.shape)))).astype(np.float32)

    found = both(tmp_path, tensors=tensors, mm0=rounded, tanh0=rounded, mm1=rounded, tanh1=rounded)
    assert found.verdict == "agree"
    assert "rounding explains" in found.sentence


def test_an_inserted_operator_that_changes_nothing_moves_no_other(tmp_path: Path) -> None:
    found = both(tmp_path, insert=0)
    assert found.verdict == "agree"
    assert [row.state for row in found.judgements[0].rows].count("only target") == 1


def test_an_inserted_operator_that_changes_something_is_to_blame(tmp_path: Path) -> None:
    found = both(tmp_path, double=1)
    assert found.first is not None
    assert (found.first.kind, found.first.operator) == ("inserted operator", "aten.mul.Tensor")
    assert found.first.line == "train.py:31"


def test_a_missing_operator_is_to_blame(tmp_path: Path) -> None:
    found = compare(network(tmp_path / "golden", double=1), network(tmp_path / "target"), jobs=1)
    assert found.first is not None
    assert (found.first.kind, found.first.side) == ("missing operator", "golden")


@KINDS
def test_a_nan_is_born_where_the_inputs_have_none(tmp_path: Path, tensors: bool) -> None:
    def broken(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[2, 3] = np.nan
        return array

    found = both(tmp_path, tensors=tensors, mm0=broken)
    assert found.first is not None
    assert (found.first.kind, found.first.module) == ("NaN or inf born here", "Net.0")


def test_a_multiple_of_the_golden_result_is_a_scale(tmp_path: Path) -> None:
    found = both(tmp_path, tensors=True, mm1=lambda y: y * np.float32(1.01))
    assert found.first is not None
    assert found.first.kind == "scale"
    assert "1.01 times" in found.first.why


def test_a_result_with_the_digits_of_bfloat16_is_of_another_dtype(tmp_path: Path) -> None:
    def short(array: np.ndarray) -> np.ndarray:
        return ((array.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)

    found = both(tmp_path, tensors=True, mm1=short)
    assert found.first is not None
    assert (found.first.kind, "bfloat16" in found.first.why) == ("another dtype", True)


def test_another_argument_is_named(tmp_path: Path) -> None:
    found = both(tmp_path, args=1e-3, tanh1=lambda y: y * np.float32(1.0001))
    assert found.first is not None
    assert (found.first.kind, found.first.operator) == ("another argument", "aten.tanh.default")


def test_an_input_from_outside_is_to_blame_before_what_takes_it(tmp_path: Path) -> None:
    found = both(tmp_path, x=lambda x: x[::-1].copy())
    assert found.first is not None
    assert found.first.kind == "another input"


def test_the_first_rank_that_differs_is_named(tmp_path: Path) -> None:
    for rank in (0, 1):
        network(tmp_path / "golden" / str(rank), rank=rank)
        network(tmp_path / "target" / str(rank), rank=rank, **({"mm1": lambda y: y * 2} if rank else {}))
    for side in ("golden", "target"):
        for rank in (0, 1):
            (tmp_path / side / str(rank) / f"rank{rank}").rename(tmp_path / side / f"rank{rank}")
    found = compare(tmp_path / "golden", tmp_path / "target", jobs=2)
    assert found.first is not None
    assert (found.first.rank, found.first.module) == (1, "Net.1")


def test_the_chain_leads_to_the_loss_with_its_amplification(tmp_path: Path) -> None:
    found = both(tmp_path, mm0=lambda y: y + random(9, 8, 16) / 100)
    assert found.chain[0].operator == "mm"
    assert [link.operator for link in found.chain][-1] == "sum"
    assert all(link.amplification for link in found.chain[1:])


def test_the_document_is_null_where_nothing_differs(tmp_path: Path) -> None:
    found = document(both(tmp_path))
    assert (found["format"], found["verdict"], found["first"]) == ("hermes.precision/1", "agree", None)


def test_a_noisy_repeat_of_the_golden_run_excuses_its_noise(tmp_path: Path) -> None:
    noisy = network(tmp_path / "target", mm1=lambda y: y + random(9, 8, 16) / 1000)
    golden = network(tmp_path / "golden")
    repeat = network(tmp_path / "repeat", mm1=lambda y: y + random(5, 8, 16) / 1000)
    assert compare(golden, noisy, jobs=1).verdict == "differ"
    assert compare(golden, noisy, noise=repeat, jobs=1).verdict == "agree"


def test_recordings_without_a_common_step_are_refused(tmp_path: Path) -> None:
    golden = network(tmp_path / "golden")
    draw = Drawing(tmp_path / "target", steps=(5,))
    draw.op("aten.tanh.default", [draw.value(random(0, 4))], random(1, 4))
    with pytest.raises(InputError, match="no step in common"):
        compare(golden, draw.close())
