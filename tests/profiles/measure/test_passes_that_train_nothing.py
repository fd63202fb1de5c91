"""Loops of calls, forward passes that train nothing, and gradients that nobody uses, in drawn traces of two steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.profiles.load import load
from hermes.profiles.measure.code.passes_that_train_nothing import unlearned_of
from hermes.profiles.measure.code.repeated_calls import repeated_calls_of
from hermes.profiles.measure.code.unused_gradients import unused_gradients_of
from hermes.profiles.measure.registry import RankTables
from hermes.store.cache import Cache

Event = dict[str, Any]
_LENGTH = 1_000


def event(cat: str, name: str, start: float, length: float, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": length, "args": args}


def python(name: str, start: float, length: float) -> Event:
    return event("python_function", name, start, length)


def op(name: str, start: float, length: float, *shape: int, **more: Any) -> Event:
    dims = {"Input Dims": [[*shape]], "Input type": ["float"]} if shape else {}
    return event("cpu_op", name, start, length, **dims, **more)


def forward(at: float, *, sequence: int | None, shape: tuple[int, ...] = (8, 4)) -> Iterator[Event]:
    """A pass of the model of 100 us; only with a number it has a backward one."""
    numbers = {} if sequence is None else {"Sequence number": sequence, "Fwd thread id": 0}
    yield python("nn.Module: Net_0", at, 100)
    yield python("model.py(7): forward", at + 5, 90)
    yield op("aten::linear", at + 10, 80, *shape, **numbers)


def training(at: float, number: int) -> Iterator[Event]:
    """Forward, backward with gradients of a head and then of a backbone, and an optimizer that has the head alone."""
    yield from forward(at, sequence=number)
    yield python("<built-in method run_backward of Engine>", at + 200, 300)
    yield op(
        "autograd::engine::evaluate_function: AddmmBackward0",
        at + 205,
        280,
        **{"Sequence number": number, "Fwd thread id": 1},
    )
    yield op("torch::autograd::AccumulateGrad", at + 220, 5, 4, 2)
    yield op("torch::autograd::AccumulateGrad", at + 470, 5, 64, 64)
    yield event("user_annotation", "Optimizer.step#SGD.step", at + 550, 50)
    yield op("aten::add_", at + 560, 20, 4, 2)


def rank(folder: Path, one: Callable[[float, int], Iterator[Event]]) -> RankTables:
    events = [python("train.py(30): main", -50, 2 * _LENGTH + 100)]
    for number, at in ((1, 0), (2, _LENGTH)):
        events += [event("user_annotation", f"ProfilerStep#{number}", at, _LENGTH), *training(at, number)]
        events += one(at, number)
    head = {"schemaVersion": 1, "with_stack": 1, "record_shapes": 1, "hermes": {"own": ["train", "model"]}}
    file = folder / "rank0.pt.trace.json"
    file.write_text(json.dumps({**head, "traceEvents": events}), "utf-8")
    return RankTables(load([str(file)], cache=Cache(folder / "cache")).ranks[0])


def nothing(at: float, number: int) -> Iterator[Event]:
    yield from ()


def test_a_function_that_runs_the_model_beside_the_training_is_told_with_all_of_its_time(tmp_path: Path) -> None:
    def accuracy(at: float, number: int) -> Iterator[Event]:
        yield python("train.py(20): accuracy", at + 650, 200)
        yield from forward(at + 700, sequence=None)

    (row,) = unlearned_of(rank(tmp_path, accuracy))
    assert (row.line, row.ns, row.again, row.loads) == ("train.py:20 `accuracy`", 200_000, True, False)
    assert (row.calls, row.trained, row.steps_hit) == (1, 1, 2)


def test_a_pass_on_other_shapes_in_a_function_that_reads_batches_is_an_evaluation(tmp_path: Path) -> None:
    def validate(at: float, number: int) -> Iterator[Event]:
        yield python("train.py(20): validate", at + 650, 300)
        yield event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 660, 20)
        yield from forward(at + 700, sequence=None, shape=(32, 4))

    (row,) = unlearned_of(rank(tmp_path, validate))
    assert (row.ns, row.again, row.loads) == (300_000, False, True)


def test_a_model_that_only_trains_has_no_such_pass(tmp_path: Path) -> None:
    assert not unlearned_of(rank(tmp_path, nothing))


def test_gradients_of_shapes_that_no_optimizer_works_on_cost_what_comes_behind_the_last_that_is_used(
    tmp_path: Path,
) -> None:
    row = unused_gradients_of(rank(tmp_path, nothing))
    assert row is not None
    assert (row.kept, row.unused, row.tail_ns) == (1, 1, 250_000)


def other(at: float, *, zero: float | None, shape: tuple[int, ...] = (64, 64)) -> Iterator[Event]:
    """A second network that learns behind the first, on the shape whose gradient the first pass has computed, too."""
    if zero is not None:
        yield event("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", at + zero, 5)
    yield python("train.py(40): paints", at + 640, 150)
    yield python("<built-in method run_backward of Engine>", at + 650, 100)
    yield op("torch::autograd::AccumulateGrad", at + 700, 5, *shape)
    yield event("user_annotation", "Optimizer.step#SGD.step", at + 760, 20)
    yield op("aten::add_", at + 765, 10, *shape)


@pytest.mark.parametrize("zero", [620, 110, None], ids=["between", "before both", "never"])
def test_gradients_that_are_set_to_zero_before_their_optimizer_steps_are_thrown_away(
    tmp_path: Path, zero: float | None
) -> None:
    row = unused_gradients_of(rank(tmp_path, lambda at, number: other(at, zero=zero)))
    if zero != 620:
        # Without zeros in between the second pass adds to them.
        assert row is None
        return
    assert row is not None
    assert (row.kept, row.unused, row.tail_ns, row.dropped) == (2, 1, 250_000, True)
    assert row.line == "train.py:30 `main`"


def test_of_tensors_of_one_shape_as_many_are_used_as_an_optimizer_updates(tmp_path: Path) -> None:
    def twin(at: float, number: int) -> Iterator[Event]:
        """A layer of the backbone has the shape of the head's."""
        yield op("torch::autograd::AccumulateGrad", at + 300, 5, 4, 2)

    row = unused_gradients_of(rank(tmp_path, twin))
    assert row is not None
    assert (row.kept, row.unused, row.tail_ns) == (1, 2, 250_000)


@pytest.mark.parametrize("shapes", [True, False])
def test_a_list_of_unknown_shapes_says_nothing_of_what_is_used(tmp_path: Path, shapes: bool) -> None:
    def fused(at: float, number: int) -> Iterator[Event]:
        yield op("aten::_foreach_add_", at + 585, 5, *((4, 2) if shapes else ()))
        # A list of single numbers has no shapes in any case.
        yield op("aten::_foreach_add_", at + 591, 2)

    assert bool(unused_gradients_of(rank(tmp_path, fused))) is shapes


def loop(between: str, times: int) -> Callable[[float, int], Iterator[Event]]:
    def one(at: float, number: int) -> Iterator[Event]:
        yield python("train.py(20): act", at + 650, 300)
        for call in range(times):
            start = at + 655 + 10 * call
            yield python("model.py(3): policy", start, 6)
            yield op("aten::mul", start + 1, 4, 4)
            if between:
                yield python(between, start + 7, 2)

    return one


def test_a_function_that_is_called_in_a_row_for_one_call_of_another_is_a_loop(tmp_path: Path) -> None:
    (row,) = repeated_calls_of(rank(tmp_path, loop("", 20)))
    assert (row.line, row.what, row.times, row.ns) == ("train.py:20 `act`", "policy", 20, 120_000)


def test_a_loop_in_a_function_that_runs_through_all_steps_is_counted_by_step(tmp_path: Path) -> None:
    def one(at: float, number: int) -> Iterator[Event]:
        yield from (row for row in loop("", 20)(at, number) if "act" not in row["name"])

    (row,) = repeated_calls_of(rank(tmp_path, one))
    assert (row.line, row.times) == ("train.py:30 `main`", 20)


@pytest.mark.parametrize(("between", "times"), [("model.py(9): step", 20), ("", 15)], ids=["in turn", "few"])
def test_calls_in_turn_with_what_they_may_depend_on_and_few_calls_are_none(
    tmp_path: Path, between: str, times: int
) -> None:
    assert not repeated_calls_of(rank(tmp_path, loop(between, times)))
