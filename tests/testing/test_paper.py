"""The published cases: what counts as right, and one modelled case from its job to its row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.paper.__main__ import PROGRAMS, main, modelled
from bench.paper.cases import CASES, Case
from bench.paper.outcome import Outcome, outcome, row, text
from tests.each import each

from hermes.model.fault import Fault
from hermes_testing import simulate
from hermes_testing.truth import step_ns

CASE = {case.name: case for case in CASES}
RESNET = CASE["resnet50_workers_ascend"]
RIGHT = Outcome(
    case=RESNET, leaf="input_workers", fault="too_few_workers", before_ms=90.0, after_ms=17.2, gain=(0.6, 0.81)
)


def _document(**verdict: str | None) -> dict[str, Any]:
    actions = [
        {"fault": "unfused_optimizer", "gain": {"share_low": 0.01, "share_high": 0.02}},
        {"fault": "too_few_workers", "gain": {"share_low": 0.5, "share_high": 0.75}},
    ]
    contention = [{"kind": "compute", "slowdown": 1.3}, {"kind": "communication", "slowdown": 2.0}]
    plan = {"actions": actions, "without_profiler": None, "noise": {"step_ms": 80.0}}
    return {"verdict": verdict, "plan": plan, "communication": {"contention": contention}}


@each(CASES, lambda case: case.name)
def test_a_case_is_made_in_one_way_and_says_where_it_is_from(case: Case) -> None:
    assert (case.job is None) == bool(case.program)
    assert (case.cured is None) == bool(case.program)
    assert not case.program or (PROGRAMS / f"{case.program}.py").is_file()
    assert case.source
    assert case.faults


def test_the_modelled_input_has_the_published_step() -> None:
    assert RESNET.job is not None
    assert step_ns(simulate(RESNET.job).profiles) / 1e6 == pytest.approx(RESNET.before_ms, rel=0.01)


def test_a_range_around_the_published_step_after_is_right() -> None:
    assert RIGHT.after == pytest.approx((17.1, 36.0))
    assert RIGHT.hit


@pytest.mark.parametrize(
    "change", [{"fault": "dispatch"}, {"gain": (0.1, 0.2)}, {"gain": (0.85, 0.9)}, {"gain": None}, {"before_ms": 70.0}]
)
def test_a_wrong_cause_a_range_beside_it_none_or_another_before_is_a_miss(change: dict[str, Any]) -> None:
    wrong = replace(RIGHT, **change)
    assert not wrong.hit
    assert any("**" in cell for cell in row(wrong))


def test_without_a_published_after_the_one_made_here_counts() -> None:
    case = replace(RESNET, after_ms=None)
    assert replace(RIGHT, case=case, after_ms=20.0).holds
    assert not replace(RIGHT, case=case, after_ms=16.0).holds


def test_the_range_is_that_of_the_action_about_the_cause() -> None:
    found = outcome(RESNET, _document(leaf="input_workers", fault="too_few_workers"), 17.2)
    assert (found.gain, found.before_ms, found.slower) == ((0.5, 0.75), 80.0, None)


def test_a_report_without_an_answer_predicts_nothing() -> None:
    case = replace(RESNET, faults=(Fault.DATA_READING,))
    found = outcome(case, _document(leaf=None, fault=None), 17.2)
    assert (found.gain, found.named, found.holds) == (None, False, False)
    assert "nothing" in row(found)


def test_kernels_beside_transfers_stand_with_their_published_range() -> None:
    found = outcome(CASE["contention_30"], _document(leaf="matrix_product", fault="contention"), 75.0)
    assert row(found)[1:3] == ("+20% to +40%", "80.0 ms, model, kernels +30%")


def test_the_text_counts_what_is_right() -> None:
    said = text([RIGHT, replace(RIGHT, fault="dispatch")], cores=2, load=1.25)
    assert said.startswith("Right in all: 1 of 2; cause 1, range 2. Measured on 2 cores at a load of 1.2.\n")


@pytest.mark.live
def test_hermes_names_the_modelled_input_and_holds_the_published_step(tmp_path: Path) -> None:
    found = outcome(RESNET, modelled(RESNET, tmp_path), 17.2)
    assert found.faithful
    assert found.hit


def test_no_case_of_that_name_writes_no_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert main(["--only", "nothing", "--page", str(page)]) == 2
    assert not page.exists()
