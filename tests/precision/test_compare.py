"""A comparison names the operator whose inputs agree and whose outputs do not, and nothing where all is rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.precision.drawn import Drawing, random

from hermes.base.errors import InputError
from hermes.base.say import say
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
    assert found.answer.identifier == "precision.agree.exact"


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
    assert found.answer.identifier == "precision.agree.rounding"


def test_an_inserted_operator_that_changes_nothing_moves_no_other(tmp_path: Path) -> None:
    found = both(tmp_path, insert=0)
    assert found.verdict == "agree"
    assert [row.state for row in found.judgements[0].rows].count("only_target") == 1


def test_an_inserted_operator_that_changes_something_is_to_blame(tmp_path: Path) -> None:
    found = both(tmp_path, double=1)
    assert found.first is not None
    assert (found.first.kind, found.first.operator) == ("inserted_operator", "aten.mul.Tensor")
    assert found.first.line == "train.py:31"


def test_a_missing_operator_is_to_blame(tmp_path: Path) -> None:
    found = compare(network(tmp_path / "golden", double=1), network(tmp_path / "target"), jobs=1)
    assert found.first is not None
    assert (found.first.kind, found.first.side) == ("missing_operator", "golden")


@KINDS
def test_a_nan_is_born_where_the_inputs_have_none(tmp_path: Path, tensors: bool) -> None:
    def broken(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[2, 3] = np.nan
        return array

    found = both(tmp_path, tensors=tensors, mm0=broken)
    assert found.first is not None
    assert (found.first.kind, found.first.module) == ("not_finite", "Net.0")


def test_a_multiple_of_the_golden_result_is_a_scale(tmp_path: Path) -> None:
    found = both(tmp_path, tensors=True, mm1=lambda y: y * np.float32(1.01))
    assert found.first is not None
    assert found.first.kind == "scale"
    assert found.first.why["factor"] == pytest.approx(1.01)


def test_a_result_with_the_digits_of_bfloat16_is_of_another_dtype(tmp_path: Path) -> None:
    def short(array: np.ndarray) -> np.ndarray:
        return ((array.view(np.uint32) + 0x8000) & 0xFFFF0000).view(np.float32)

    found = both(tmp_path, tensors=True, mm1=short)
    assert found.first is not None
    assert (found.first.kind, found.first.why["dtype"]) == ("another_dtype", "bfloat16")


def test_another_argument_is_named(tmp_path: Path) -> None:
    found = both(tmp_path, args=1e-3, tanh1=lambda y: y * np.float32(1.0001))
    assert found.first is not None
    assert (found.first.kind, found.first.operator) == ("another_argument", "aten.tanh.default")


def test_an_input_from_outside_is_to_blame_before_what_takes_it(tmp_path: Path) -> None:
    found = both(tmp_path, x=lambda x: x[::-1].copy())
    assert found.first is not None
    assert found.first.kind == "another_input"


def test_the_first_rank_that_differs_is_named(tmp_path: Path) -> None:
    for rank in (0, 1):
        network(tmp_path / "golden" / str(rank), rank=rank)
        network(tmp_path / "target" / str(rank), rank=rank, **({"mm1": lambda y: y * 2} if rank else {}))
    for side in ("golden", "target"):
        for rank in (0, 1):
            (tmp_path / side / str(rank) / f"rank{rank}").rename(tmp_path / side / f"rank{rank}")
    found = compare(tmp_path / "golden", tmp_path / "target", jobs=1)
    assert found.first is not None
    assert (found.first.rank, found.first.module) == (1, "Net.1")


def test_the_chain_leads_to_the_loss_with_its_amplification(tmp_path: Path) -> None:
    found = both(tmp_path, mm0=lambda y: y + random(9, 8, 16) / 100)
    assert found.chain[0].operator == "mm"
    assert [link.operator for link in found.chain][-1] == "sum"
    assert all(link.amplification for link in found.chain[1:])


def test_the_document_is_null_where_nothing_differs(tmp_path: Path) -> None:
    found = document(both(tmp_path))
    assert (found.schema, found.facts["verdict"], found.findings) == ("hermes.precision/1", "agree", ())


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


def chain(folder: Path, *calls: tuple[str, list[str], str, Any], line: int = 10) -> Path:
    """One step of named calls; each is operator, names of its inputs, name of its output, and the elements of that."""
    draw = Drawing(folder)
    values = {"x": draw.value(random(0, 8, 16)), "raw": draw.value(np.zeros((8, 16), np.float32))}
    for at, (name, inputs, output, array) in enumerate(calls):
        args = [f"@{place}" for place in range(len(inputs))]
        (values[output],) = draw.op(name, [values[one] for one in inputs], array, args=args, line=line + at)
    return draw.close()


X = random(0, 8, 16)


def test_operators_that_changed_places_are_named_where_their_results_meet(tmp_path: Path) -> None:
    sine, cosine = np.sin(X), np.cos(X)
    calls = [("aten.sin.default", ["x"], "a", sine), ("aten.cos.default", ["x"], "b", cosine)]
    golden = [*calls, ("aten.cat.default", ["a", "b"], "c", np.concatenate([sine, cosine]))]
    target = [*calls[::-1], ("aten.cat.default", ["b", "a"], "c", np.concatenate([cosine, sine]))]
    first = compare(chain(tmp_path / "a", *golden), chain(tmp_path / "b", *target), jobs=1).first
    assert first is not None
    assert (first.kind, first.operator, first.line) == ("another_formula", "aten.cat.default", "train.py:12")
    assert first.why.identifier == "precision.why.operators.swapped"


def test_an_argument_that_is_hardly_another_is_named_where_results_differ(tmp_path: Path) -> None:
    def run(folder: Path, factor: float) -> Path:
        draw = Drawing(folder)
        x = draw.value(X)
        draw.op("aten.mul.Tensor", [x], (X * np.float32(factor)).astype(np.float32), args=["@0", factor], line=7)
        return draw.close()

    first = compare(run(tmp_path / "a", 0.999995), run(tmp_path / "b", 0.99999), jobs=1).first
    assert first is not None
    assert (first.kind, say(first.why)) == ("another_argument", "0.99999 instead of 0.999995")


def test_close_numbers_that_round_to_either_side_are_no_difference(tmp_path: Path) -> None:
    def run(folder: Path, x: np.ndarray) -> Path:
        draw = Drawing(folder)
        (y,) = draw.op("aten.mul.Tensor", [draw.value(X)], x, args=["@0", 1.0])
        draw.op("aten._to_copy.default", [y], x.astype(np.float16), args=["@0"])
        return draw.close()

    halves = (X.astype(np.float16).astype(np.float64) * (1 + 2.0**-11)).astype(np.float32)
    found = compare(run(tmp_path / "a", halves), run(tmp_path / "b", (halves * (1 + 2 * ULP)).astype(np.float32)))
    assert found.first is None


def test_memory_that_nobody_filled_is_no_difference(tmp_path: Path) -> None:
    def run(folder: Path, rubbish: float) -> Path:
        draw = Drawing(folder)
        (bucket,) = draw.op("aten.empty.memory_format", [], np.full(64, rubbish, np.float32))
        shown = draw.value(np.full(32, rubbish, np.float32), by=1, view=[bucket, [1], 0])
        draw.lines.append({"op": "aten.as_strided.default", "n": 1, "phase": "forward", "in": [bucket], "out": [shown]})
        draw._ops = 2
        draw.op("aten.sin.default", [draw.value(X)], np.sin(X))
        return draw.close()

    assert compare(run(tmp_path / "a", 0.0), run(tmp_path / "b", np.nan), jobs=1).first is None


def test_the_places_of_other_ranks_in_a_buffer_to_gather_into_are_no_difference(tmp_path: Path) -> None:
    def run(folder: Path, rubbish: float) -> Path:
        draw = Drawing(folder)
        own = draw.value(X)
        (bucket,) = draw.op("aten.empty.memory_format", [], np.full(2 * X.size, rubbish, np.float32))
        filled = np.concatenate([X.ravel(), np.full(X.size, rubbish, np.float32)])
        (part,) = draw.op("fsdp.all_gather_copy_in.default", [own, bucket], filled)
        draw.op("c10d._allgather_base_.default", [part], np.concatenate([X.ravel(), X.ravel()]))
        return draw.close()

    assert compare(run(tmp_path / "a", 0.0), run(tmp_path / "b", np.nan), jobs=1).first is None


def test_a_collective_in_the_place_of_another_is_to_blame_where_their_results_differ(tmp_path: Path) -> None:
    golden = chain(tmp_path / "a", ("c10d.allreduce_.default", ["x"], "a", X * 2), ("aten.sin.default", ["x"], "b", X))
    target = chain(tmp_path / "b", ("c10d.broadcast_.default", ["x"], "a", X), ("aten.sin.default", ["x"], "b", X))
    first = compare(golden, target, jobs=1).first
    assert first is not None
    assert (first.kind, first.why["target"], first.why["golden"]) == ("another_reduction", "broadcast", "allreduce")


@pytest.mark.parametrize("aside", ["golden", "target"])
def test_a_scratch_of_a_recurrent_layer_is_no_difference(tmp_path: Path, aside: str) -> None:
    def run(folder: Path, scratch: int) -> Path:
        draw = Drawing(folder)
        x = draw.value(X)
        draw.op("aten.mkldnn_rnn_layer.default", [x], np.tanh(X), np.full(64, scratch, np.uint8))
        return draw.close()

    sides = {"golden": 3, "target": 3, aside: 250}
    found = [run(tmp_path / name, scratch) for name, scratch in sides.items()]
    assert compare(*found, jobs=1).first is None


def _one(folder: Path, name: str, given: np.ndarray, result: np.ndarray, *arguments: Any) -> Path:
    draw = Drawing(folder)
    draw.op(name, [draw.value(given.astype(np.float32))], result.astype(np.float32), args=["@0", *arguments], line=10)
    return draw.close()


def test_an_axis_is_named_though_a_mask_hides_how_far_inputs_are_apart(tmp_path: Path) -> None:
    def run(folder: Path, axis: int, scale: float) -> Path:
        scores = np.triu(np.full((16, 16), -1e9), 1) + random(4, 16, 16) * scale
        weights = np.exp(scores - scores.max(axis, keepdims=True))
        return _one(folder, "aten._softmax.default", scores, weights / weights.sum(axis, keepdims=True), axis, False)

    first = compare(run(tmp_path / "a", -1, 1.0), run(tmp_path / "b", -2, 1.000001), jobs=1).first
    assert first is not None
    assert (first.kind, say(first.why)) == ("another_argument", "-2 instead of -1")


def test_an_argument_whose_effect_drowns_in_rounding_is_told(tmp_path: Path) -> None:
    def run(folder: Path, epsilon: float, off: float) -> Path:
        return _one(folder, "aten.native_layer_norm.default", X * (1 + off), X * (1 - off), [16], epsilon)

    found = compare(run(tmp_path / "a", 1e-5, 0.0), run(tmp_path / "b", 1e-6, 3e-7), jobs=1)
    assert found.first is None
    assert [(note["operator"], note["line"], say(note["change"])) for note in found.notes] == [
        ("native_layer_norm", "train.py:10", "1e-06 instead of 1e-05")
    ]
