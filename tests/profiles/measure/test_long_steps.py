"""What longer steps spend their time in, by looks at stacks; and nodes of autograd that run backward again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.profiles.measure.test_passes_that_train_nothing import Event, event, nothing, op, python, rank

from hermes.knowledge.host_work import STARTING
from hermes.model.code_measures import LongSteps
from hermes.profiles.load import load
from hermes.profiles.measure.code.long_steps import long_steps_of
from hermes.profiles.measure.code.repeated_backward import backward_again_of
from hermes.profiles.measure.registry import RankTables
from hermes.store.cache import Cache

TOLD = {
    "steps": 20, "step_ns": 1_000, "long_period": 5, "long_last": 20, "long_count": 4, "long_of": 20,
    "long_usual_ns": 1_000, "long_extra_ns": 4_000, "long_share_ppm": 444_444,
}  # fmt: skip
MAIN = "train.py(90): main"
FORWARD = ["torch/nn/modules/module.py(1): _call_impl", "model.py(7): forward"]
BACKWARD = ["torch/autograd/graph.py(1): _engine_run_backward", "torch/_tensor.py(1): backward"]
VALIDATE = "train.py(64): validate"
ITERATOR = ["multiprocessing/process.py(1): start", "torch/utils/data/dataloader.py(9): __iter__"]
WAIT = ["queue.py(1): get", "torch/utils/data/dataloader.py(5): __next__"]


def looked(
    folder: Path, long: list[list[str]], usual: list[list[str]], told: dict[str, int] = TOLD
) -> LongSteps | None:
    """The measure of a capture whose looks were these stacks, innermost frame first."""
    stacks = [*long, *usual]
    lines = {
        "every_ns": 1, "stacks": stacks, "samples": [[10 + at, at] for at in range(len(stacks))],
        "long": [[10, 10 + len(long)]],
    }  # fmt: skip
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "hermes": {"settings": {}, "own": ["train", "model"], "before": told},
        "hermes_lines": lines,
    }
    events: list[Event] = [event("user_annotation", "ProfilerStep#1", 0, 9), op("aten::add", 1, 2)]
    file = folder / "rank0.pt.trace.json"
    file.write_text(json.dumps({**head, "traceEvents": events}), "utf-8")
    return long_steps_of(RankTables(load([str(file)], cache=Cache(folder / "cache")).ranks[0]))


def test_the_outermost_function_that_only_longer_steps_call_stands_for_them(tmp_path: Path) -> None:
    usual = [[*FORWARD, MAIN], [*BACKWARD, MAIN]]
    long = [[*FORWARD, VALIDATE, MAIN]] * 8 + usual
    found = looked(tmp_path, long, usual)
    assert found is not None
    assert (found.line, found.called, found.why, found.trains) == (
        "train.py:64 `validate`", "train.py:90 `main`", "", False,
    )  # fmt: skip
    assert (found.period, found.last, found.count, found.steps, found.share) == (5, 20, 4, 20, 0.444444)


def test_workers_that_are_started_are_told_at_the_line_that_waits_for_them(tmp_path: Path) -> None:
    usual = [[*FORWARD, MAIN], [*BACKWARD, MAIN]]
    found = looked(tmp_path, [[*ITERATOR, MAIN]] * 3 + [[*WAIT, MAIN]] * 5 + usual, usual)
    assert found is not None
    assert (found.line, found.why) == ("train.py:90 `main`", STARTING)


def test_longer_steps_that_train_more_are_known_as_such(tmp_path: Path) -> None:
    usual = [[*FORWARD, MAIN], [*BACKWARD, MAIN]]
    found = looked(tmp_path, usual * 5, usual)
    assert found is not None
    assert found.trains


@pytest.mark.parametrize("told", [{}, {**TOLD, "long_period": 0}, {"steps": 3, "step_ns": 4}])
def test_a_capture_that_says_nothing_whole_of_longer_steps_has_none(tmp_path: Path, told: dict[str, int]) -> None:
    assert looked(tmp_path, [], [[MAIN]], told) is None


def test_without_a_look_into_a_longer_step_no_function_is_told(tmp_path: Path) -> None:
    found = looked(tmp_path, [], [[*FORWARD, MAIN]])
    assert found is not None
    assert found.line == ""


def test_nodes_that_run_backward_again_take_their_runs_beyond_the_first(tmp_path: Path) -> None:
    def again(at: float, number: int) -> Any:
        numbers = {"Sequence number": number, "Fwd thread id": 1}
        yield python("train.py(76): train_step", at + 620, 300)
        yield python("<built-in method run_backward of Engine>", at + 630, 280)
        yield op("autograd::engine::evaluate_function: AddmmBackward0", at + 640, 120, **numbers)

    found = backward_again_of(rank(tmp_path, again))
    assert found is not None
    # Two runs, of 280 and 120 us: one of them would do.
    assert (found.times, found.ns) == (2.0, 200_000)
    assert found.line in ("train.py:76 `train_step`", "train.py:30 `main`")


def test_nodes_that_run_once_are_none(tmp_path: Path) -> None:
    assert backward_again_of(rank(tmp_path, nothing)) is None
