"""What faults in programs that nobody tuned on have taught the judge: a small drawn program for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.drawn import Drawing, random

from hermes.base.say import say
from hermes.precision.api import Comparison, compare
from hermes.precision.first_divergence import FirstDivergence

X = random(0, 8, 16)
W = random(1, 16, 16) / 4


def view(draw: Drawing, of: int, array: np.ndarray, strides: list[int], offset: int, name: str, args: Any) -> int:
    """An operator that shows elements of a value, which is not looked at again."""
    (number,) = draw.op(name, [of], array, args=args, line=40)
    line = next(one for one in reversed(draw.lines) if one.get("value") == number)
    del line["stats"]
    line["view"] = [of, strides, offset]
    return number


def first(golden: Path, target: Path) -> FirstDivergence:
    found = compare(golden, target, jobs=1).first
    assert found is not None
    return found


def test_a_slice_that_begins_elsewhere_is_to_blame_and_not_what_takes_it(tmp_path: Path) -> None:
    def program(folder: Path, start: int) -> Path:
        draw = Drawing(folder)
        (y,) = draw.op("aten.mm.default", [draw.value(X), draw.value(W)], X @ W, line=1)
        part = (X @ W)[:, start : start + 8]
        shown = view(draw, y, part, [16, 1], start, "aten.slice.Tensor", ["@0", 1, start, start + 8])
        draw.op("aten.silu.default", [shown], part * 2, line=50)
        return draw.close()

    found = first(program(tmp_path / "a", 0), program(tmp_path / "b", 2))
    assert (found.operator, found.kind) == ("aten.slice.Tensor", "another_argument")
    assert found.line == "train.py:40"


def test_an_inserted_transpose_is_to_blame_though_it_holds_the_same_numbers(tmp_path: Path) -> None:
    def program(folder: Path, *, turned: bool) -> Path:
        draw = Drawing(folder)
        square = W @ W
        (y,) = draw.op("aten.mm.default", [draw.value(W), draw.value(W)], square, line=1)
        if turned:
            y = view(draw, y, square.T, [1, 16], 0, "aten.transpose.int", ["@0", 0, 1])
        draw.op("aten.mish.default", [y], np.tanh(square.T if turned else square), line=50)
        return draw.close()

    found = first(program(tmp_path / "a", turned=False), program(tmp_path / "b", turned=True))
    assert (found.operator, found.kind) == ("aten.transpose.int", "inserted_operator")


def test_results_taken_in_another_order_are_told(tmp_path: Path) -> None:
    def program(folder: Path, order: tuple[int, int]) -> Path:
        draw = Drawing(folder)
        parts = X[:4], X[4:]
        made = draw.op("c10d.allgather_.default", [draw.value(X)], *parts, line=1)
        draw.op("aten.cat.default", [made[one] for one in order], np.concatenate([parts[one] for one in order]), line=7)
        return draw.close()

    found = first(program(tmp_path / "a", (0, 1)), program(tmp_path / "b", (1, 0)))
    assert (found.operator, found.line) == ("aten.cat.default", "train.py:7")
    assert say(found.why) == "cat takes result 1 of allgather in the place of result 0"


def test_whether_close_numbers_are_equal_says_nothing(tmp_path: Path) -> None:
    def program(folder: Path, noise: float) -> Path:
        draw = Drawing(folder)
        a = (X * (1 + noise)).astype(np.float32)
        (y,) = draw.op("aten.mul.Tensor", [draw.value(X), draw.value(X)], a, line=1)
        draw.op("aten.eq.Tensor", [y, draw.value(X)], (a == X), line=2)
        return draw.close()

    assert compare(program(tmp_path / "a", 0.0), program(tmp_path / "b", 3e-7), jobs=1).verdict == "agree"


def test_a_nan_that_is_born_is_told_however_far_apart_the_inputs_are(tmp_path: Path) -> None:
    def program(folder: Path, *, target: bool) -> Path:
        draw = Drawing(folder)
        a = (X * (1 + 3e-7 * target)).astype(np.float32)
        (y,) = draw.op("aten.mul.Tensor", [draw.value(X), draw.value(X)], a, line=1)
        mask = a == X
        (m,) = draw.op("aten.eq.Tensor", [y, draw.value(X)], mask, line=2)
        count = np.array(float(mask.sum()), np.float32)
        (n,) = draw.op("aten.sum.default", [m], count, line=3)
        with np.errstate(invalid="ignore"):
            draw.op("aten.div.Tensor", [n, n], count / count, line=4)
        return draw.close()

    found = first(program(tmp_path / "a", target=False), program(tmp_path / "b", target=True))
    assert (found.operator, found.kind) == ("aten.div.Tensor", "not_finite")


class Modules:
    """A net of two modules with a function between them, of which only calls of modules are recorded."""

    def __init__(self, folder: Path, *, one: float = 1, between: float = 1, two: float = 1, own: float = 1,
                 rate: float = 0.1, gradient: float = 1) -> None:  # fmt: skip
        draw = self._draw = Drawing(folder)
        weight = draw.value(W, name="Net.one.weight", role="parameter")
        x = draw.value(X)
        y_array = (X @ W * one).astype(np.float32)
        net = self._begin("module.Net", [x], "Net")
        (y,) = self._module("module.Linear", [x, weight], y_array, "Net.one", 11)
        z_array = (np.tanh(y_array) * between).astype(np.float32)
        z = y if between == 0 else draw.value(z_array)
        out_array = (z_array @ W * two).astype(np.float32)
        self._module("module.Linear", [z], out_array, "Net.two", 12)
        net["out"] = [draw.value((out_array * own).astype(np.float32), by=net["n"])]
        net["done"] = draw._ops
        gradients = out_array.T @ out_array
        draw.op("gradient of outputs", [], out_array, module="Net.two", phase="backward", **{"for": 2})
        draw.op("gradient", [], (gradients * gradient).astype(np.float32), phase="gradient", parameter="Net.one.weight")
        after = (W - rate * gradients).astype(np.float32)
        draw.op("update", [], after, phase="update", parameter="Net.one.weight")
        draw.lines.sort(key=lambda line: "op" in line)  # as the recorder writes them: values first
        self.folder = draw.close()

    def _begin(self, name: str, inputs: list[int], module: str) -> dict[str, Any]:
        self._draw.op(name, inputs, module=module, line=10)
        return next(line for line in reversed(self._draw.lines) if line.get("op") == name)

    def _module(self, name: str, inputs: list[int], array: np.ndarray, module: str, line: int) -> list[int]:
        made = self._draw.op(name, inputs, array, module=module, line=line)
        self._draw.lines[-1]["done"] = self._draw._ops
        return made


def modules(tmp_path: Path, **changed: float) -> Comparison:
    return compare(Modules(tmp_path / "a").folder, Modules(tmp_path / "b", **changed).folder, jobs=1)


@pytest.mark.parametrize(
    ("changed", "module", "why"),
    [
        ({"one": 1.01}, "Net.one", "precision.why.results"), ({"two": 1.01}, "Net.two", "precision.why.results"),
        ({"between": 1.01}, "Net.two", "precision.why.input.code"),
        ({"own": 1.01}, "Net", "precision.why.results"),
        ({"gradient": 0.5}, "", "precision.why.gradient.changed"),
        ({"rate": 0.2}, "", "precision.why.optimizer"),
    ],
    ids=["first module", "second module", "between them", "behind them", "gradient", "rate"],
)  # fmt: skip
def test_where_modules_are_recorded_the_innermost_is_named(
    tmp_path: Path, changed: dict[str, float], module: str, why: str
) -> None:
    found = modules(tmp_path, **changed).first
    assert found is not None
    assert found.module == module
    assert found.why.identifier == why


def test_modules_that_agree_agree(tmp_path: Path) -> None:
    assert modules(tmp_path).verdict == "agree"


def masked(folder: Path, *, target: bool, asked: str = "-inf") -> Path:
    """Scores with a mask: added in the golden run; filled with what is `asked` where the target runs its own way."""
    draw = Drawing(folder)
    scores, mask = X, np.where(X > 1, -1e4, 0).astype(np.float32)
    given = draw.value(scores)
    if target:
        filled = np.where(X < 1, np.float32(-np.inf), X)
        (y,) = draw.op("aten.masked_fill.Scalar", [given], filled, args=["@0", asked], line=1)
    else:
        filled = (scores + mask).astype(np.float32)
        (y,) = draw.op("aten.add.Tensor", [given], filled, args=["@0", "@1"], line=1)
    with np.errstate(invalid="ignore"):
        draw.op("aten.exp.default", [y], np.exp(filled), line=2)
    return draw.close()


def test_a_mask_of_infinity_is_no_birth_of_it(tmp_path: Path) -> None:
    found = first(masked(tmp_path / "a", target=False), masked(tmp_path / "b", target=True))
    assert (found.operator, found.kind) == ("aten.masked_fill.Scalar", "another_formula")


def test_infinity_that_nobody_asked_for_is_born(tmp_path: Path) -> None:
    found = first(masked(tmp_path / "a", target=False), masked(tmp_path / "c", target=True, asked="1"))
    assert (found.operator, found.kind) == ("aten.masked_fill.Scalar", "not_finite")


def test_another_mask_of_infinity_on_both_sides_is_no_birth(tmp_path: Path) -> None:
    def run(folder: Path, limit: float) -> Path:
        draw = Drawing(folder)
        filled = np.where(limit > X, np.float32(-np.inf), X)
        draw.op("aten.masked_fill.Scalar", [draw.value(X)], filled, args=["@0", "-inf"], line=1)
        return draw.close()

    assert first(run(tmp_path / "a", 0.0), run(tmp_path / "b", 1.0)).kind == "another_formula"
