"""What counts as a wrong judgement: each rule of it, on a report that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.real.expert import Measured, Opinion
from bench.real.judge import foreign, impossible, judge
from bench.real.opinions import OPINIONS
from tests.shared_jobs import TWO, Jobs

from hermes.model.fault import Fault
from hermes.model.report import Report
from hermes_testing import Fault as Planted

SLOW = replace(TWO, faults=(Planted(kind="data_wait"),))


@pytest.fixture
def report(jobs: Jobs) -> Report:
    return jobs.report(SLOW, "ascend-db")


def _first(report: Report) -> Fault:
    return next(cause for cause in Fault if cause == report.plan.actions[0].fault)


def _opinion(report: Report, **changes: object) -> Opinion:
    said = Opinion(
        path="some.json.gz", job="a job", bounds=(report.verdict.bound,), evidence="", first=(_first(report),),
        devices=("ascend", "cuda", "rocm"),
    )  # fmt: skip
    return replace(said, **changes)  # type: ignore[arg-type]


def test_who_says_what_the_expert_says_is_right(report: Report) -> None:
    found = judge(report, _opinion(report))
    assert found.first
    assert found.others
    assert found.faults == ()


def test_another_cause_and_another_bound_are_wrong(report: Report) -> None:
    found = judge(report, _opinion(report, first=(Fault.PADDING,), wide=(Fault.PADDING,), bounds=("copy",)))
    assert not found.first
    assert not found.others
    assert len(found.faults) == 1


def test_a_cause_where_none_is_to_be_told_is_wrong(report: Report) -> None:
    first = _first(report)
    found = judge(report, _opinion(report, first=(), never=(first,)))
    assert not found.first
    assert found.faults == (f"{first} is no cause here",)


def test_the_measured_gain_is_looked_up_in_the_range_of_its_cause(report: Report) -> None:
    one = report.plan.actions[0]
    inside = Measured(fault=_first(report), share=(one.share_low + one.share_high) / 2, source="")
    assert judge(report, _opinion(report, measured=inside)).holds_measured
    assert judge(report, _opinion(report, measured=replace(inside, share=0.99))).holds_measured is False
    assert judge(report, _opinion(report)).holds_measured is None


def test_a_gain_beyond_its_cost_and_a_cost_beyond_the_step_are_impossible(report: Report) -> None:
    assert not [*impossible(report)]
    first, *others = report.findings
    dear = replace(first, cost_ns=report.plan.floor.step_ns + 1)
    much = replace(first, gain=replace(first.gain, high_ns=2 * report.plan.floor.step_ns))
    for broken in (dear, much):
        assert len([*impossible(replace(report, findings=(broken, *others)))]) == 1


def test_a_verdict_about_another_cause_is_told(report: Report) -> None:
    other = replace(report.verdict, fault=Fault.PADDING)
    assert "padding" in next(impossible(replace(report, verdict=other)))


def test_words_of_other_chips_and_of_training_are_told(report: Report) -> None:
    first, *others = report.plan.actions
    changed = replace(first, after="torch.npu.synchronize()  # GradScaler")
    plan = replace(report.plan, actions=(changed, *others))
    found = [*foreign(replace(report, plan=plan), _opinion(report, devices=("cuda",), inference=True))]
    assert any("torch.npu." in one for one in found)
    assert any("GradScaler" in one for one in found)


def test_each_opinion_has_its_profile_once_and_a_sentence_of_evidence() -> None:
    assert len({one.path for one in OPINIONS}) == len(OPINIONS)
    assert all(one.evidence.endswith(".") for one in OPINIONS)
