"""Rules about functions of the user's: they fire on what takes much of the step and trains nothing, else are silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.profiles.rules.rows import only, silent

from hermes.base.say import say
from hermes.knowledge.host_work import CHECKPOINT, STARTING
from hermes.model.code_measures import BackwardAgain, CodeLine, LongSteps, Unlearned, UnusedGradients
from hermes.model.fault import Fault
from hermes.model.host_measures import HostEvents
from hermes.model.job import Job, JobMeasures
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.rules.code.hot001_hot_function import own_function
from hermes.profiles.rules.code.hot003_trains_nothing import trains_nothing
from hermes.profiles.rules.code.hot005_long_steps import long_steps

STEP = StepSplit(
    rank=0, step=1, window_kind="host", start_ns=0, window_ns=1_000, compute_ns=None, comm_ns=None,
    exposed_comm_ns=None, overlapped_comm_ns=None, copy_ns=None, copy_exposed_ns=None, free_ns=None,
    preparing_ns=None, host_ns=1_000,
)  # fmt: skip
ROW = CodeLine(
    rank=0, place="train.py:24", function="features", calls=2, total_ns=0, own_ns=0, python_ns=0, framework_ns=0,
    operator_ns=0, launch_ns=0, wait_ns=0, backward_ns=0, device_ns=0, growth=None, caller="", loop="", names=(),
    lines=(), within="", source="frames",
)  # fmt: skip
MODEL = replace(ROW, place="model.py:3", function="forward", operator_ns=300, own_ns=300, trains=True)


def job(*rows: object) -> JobMeasures:
    """A job of one step, with these rows."""
    return JobMeasures(Job(steps=JobSteps([STEP])), [STEP, *rows])


def hot(**parts: Any) -> CodeLine:
    own = sum(ns for name, ns in parts.items() if name.endswith("_ns"))
    return replace(ROW, **parts, own_ns=own)


def test_python_of_a_function_is_a_finding_with_its_line() -> None:
    found = only(own_function, job(MODEL, hot(python_ns=400)))
    assert found.lines == ("train.py:24 `features`",)
    assert found.cost_ns == 400
    assert "Python, 40% of the step, in 2 calls" in say(found.message)


def test_an_expression_is_told_with_the_function_that_it_stands_in() -> None:
    row = hot(python_ns=400, function="<genexpr>", caller="train.py:20 `features`")
    assert only(own_function, job(row)).lines == ("train.py:24 `<genexpr>`", "train.py:20 `features`")


def test_the_line_at_which_it_was_seen_stands_for_the_function() -> None:
    found = only(own_function, job(hot(python_ns=400, lines=(("train.py:26", 0.9),))))
    assert found.lines == ("train.py:26 `features`",)


@pytest.mark.parametrize(
    "row",
    [
        hot(python_ns=90),
        hot(operator_ns=400, trains=True),
        hot(operator_ns=400, modules=True),
        hot(operator_ns=150),
        hot(operator_ns=400, function="forward"),
        hot(python_ns=400, within="data loading"),
        hot(framework_ns=400, modules=True),
        replace(ROW, place="", own_ns=900, python_ns=900),
    ],
    ids=[
        "little",
        "trains",
        "runs modules",
        "few operators",
        "own gradient",
        "in a loader",
        "dispatch",
        "in no function",
    ],
)
def test_what_is_small_trains_or_belongs_to_another_rule_is_silent(row: CodeLine) -> None:
    assert silent(own_function, job(MODEL, row))


def test_operators_beside_the_training_count_from_twice_the_limit_on() -> None:
    found = only(own_function, job(MODEL, hot(operator_ns=250)))
    assert "operators that no gradient needs" in say(found.message)


def test_where_nothing_trains_operators_are_not_beside_the_training() -> None:
    assert silent(own_function, job(hot(operator_ns=900)))


def test_tensors_of_constants_are_made_anew() -> None:
    found = only(own_function, job(MODEL, hot(operator_ns=80, made=True)))
    assert "makes the same tensors again in each step" in say(found.message)
    assert "register_buffer" in say(found.actions[0].do)


def test_a_function_that_takes_data_makes_nothing_anew() -> None:
    assert silent(own_function, job(MODEL, hot(operator_ns=80)))


# Work that trains nothing --------------------------------------------------------------------------------------------


def given(*rows: object) -> JobMeasures:
    return job(MODEL, *rows)


def passes(**changed: Any) -> Unlearned:
    known: dict[str, Any] = {
        "rank": 0, "line": "train.py:37 `validate`", "module": "Net_0", "calls": 4.0, "trained": 4.0, "ns": 500,
        "loads": True, "again": False, "steps": 2, "steps_hit": 2,
    }  # fmt: skip
    return Unlearned(**(known | changed))


def test_an_evaluation_in_each_step_costs_all_of_its_function() -> None:
    found = only(trains_nothing, given(passes()))
    assert (found.cost_ns, found.lines) == (500, ("train.py:37 `validate`",))
    assert say(found.actions[0].title) == "Evaluate rarely"


def test_a_second_pass_over_shapes_that_are_trained_is_one_too_many() -> None:
    found = only(trains_nothing, given(passes(loads=False, again=True)))
    assert say(found.actions[0].title) == "Take the result from the training's forward pass"


@pytest.mark.parametrize(
    "row",
    [
        passes(steps_hit=1),
        passes(steps=1, steps_hit=1),
        passes(ns=50),
        passes(loads=False),
        passes(loads=False, again=True, calls=64.0),
        passes(loads=False, again=True, calls=1.0),
    ],
    ids=[
        "a rare one",
        "one step",
        "a short one",
        "rollouts of other shapes",
        "many for one",
        "less often than trained",
    ],
)
def test_other_passes_that_train_nothing_are_no_finding(row: Unlearned) -> None:
    assert silent(trains_nothing, given(row))


def test_with_two_optimizers_one_network_may_compute_for_another() -> None:
    steps = HostEvents(
        rank=0, what="optimizer steps", steps=2, steps_hit=2, calls=4, ns=1, longest_ns=1, device_free_ns=None,
        names=(), source="",
    )  # fmt: skip
    assert silent(trains_nothing, given(passes(loads=False, again=True), steps))


def test_gradients_that_no_optimizer_uses_cost_the_backward_pass_behind_the_last_that_is_used() -> None:
    row = UnusedGradients(rank=0, kept=4.0, unused=16.0, tail_ns=300, optimizer_steps=2)
    found = only(trains_nothing, given(row))
    assert (found.cost_ns, found.gain.expected_ns) == (300, 300)
    assert silent(trains_nothing, given(replace(row, tail_ns=50)))


def test_gradients_that_are_thrown_away_are_told_at_the_pass_that_computes_them() -> None:
    row = UnusedGradients(
        rank=0, kept=4.0, unused=16.0, tail_ns=300, optimizer_steps=2, dropped=True, line="gan.py:60 `judge`"
    )
    found = only(trains_nothing, given(row))
    assert "set to zero before" in say(found.message)
    assert (found.lines, say(found.actions[0].title)) == (
        ("gan.py:60 `judge`",),
        "Detach the output of the other network",
    )


LONG = LongSteps(
    rank=0, period=5, last=20, count=4, steps=20, usual_ns=800, extra_ns=1_500, share=0.3,
    line="train.py:64 `validate`", called="train.py:90 `main`",
)  # fmt: skip


def test_longer_steps_at_an_even_distance_cost_their_share_of_all_time_and_are_told_with_their_function() -> None:
    found = only(long_steps, job(LONG))
    assert (found.cost_ns, found.share, found.lines) == (300, 0.3, (LONG.line, LONG.called))
    assert say(found.message).startswith("Every 5 steps one step takes 1.50 us longer, in train.py:64 `validate`")
    assert found.fault is Fault.LONG_STEPS


@pytest.mark.parametrize(
    ("why", "cause"), [(STARTING, Fault.WORKERS_STARTED_ANEW), (CHECKPOINT, Fault.CHECKPOINT_OR_LOGGING)]
)
def test_longer_steps_are_told_as_what_they_are_for(why: str, cause: Fault) -> None:
    assert only(long_steps, job(replace(LONG, why=why))).fault is cause


def test_without_a_look_into_a_longer_step_one_is_to_be_captured() -> None:
    found = only(long_steps, job(replace(LONG, line="", called="")))
    assert say(found.actions[0].title) == "Capture one of the longer steps"


@pytest.mark.parametrize("row", [replace(LONG, share=0.09), replace(LONG, trains=True)], ids=["little", "trains more"])
def test_longer_steps_that_take_little_or_train_more_are_no_finding(row: LongSteps) -> None:
    silent(long_steps, job(row))


AGAIN = BackwardAgain(rank=0, times=3.0, ns=540, line="train.py:76 `train_step`")


def test_passes_over_the_same_graph_cost_their_runs_beyond_the_first() -> None:
    found = only(trains_nothing, job(AGAIN))
    assert (found.cost_ns, found.lines) == (540, (AGAIN.line,))
    assert "runs 3 times" in say(found.message)
    silent(trains_nothing, job(replace(AGAIN, ns=40)))


def test_of_a_function_that_trains_it_is_said_what_to_look_at() -> None:
    row = hot(python_ns=400, trains=True, lines=(("train.py:26", 0.4),), names=(("json/decoder.py(1): decode", 300),))
    action, apart = only(own_function, job(row)).actions
    assert (action.fit.phase, apart.fit.phase) == ("training", "inference")
    assert "gradients" in say(action.risk)
    assert apart == replace(action, risk=apart.risk, fit=apart.fit)
    assert "train.py:26 (40%)" in say(action.do)
    assert "json/decoder.py(1): decode" in say(action.do)
    assert "make it an operator" not in say(action.title)
