"""Symptoms are held against what was measured: true, false, or not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.each import each

from hermes.knowledge.cases import cases
from hermes.knowledge.cases.predicate import parse
from hermes.model.comm_measures import GroupKind, Packets
from hermes.model.host_measures import SettingValues
from hermes.model.input_measures import Fetches
from hermes.model.job import Job, JobMeasures
from hermes.model.leaf import Leaf
from hermes.model.leaf_time import LeafTime
from hermes.model.step_measures import StepSplit
from hermes.model.symptom import ANY, Symptom, symptoms
from hermes.model.typical_step import JobSteps
from hermes.profiles.advise.case_symptoms import JobFacts, faults_of_symptom
from hermes.profiles.load import load
from hermes.profiles.measure import load_all
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache

MS = 1_000_000
load_all()


def step(rank: int, free_ms: int) -> StepSplit:
    return StepSplit(
        rank=rank, step=1, window_kind="device", start_ns=0, window_ns=100 * MS, compute_ns=(100 - free_ms) * MS,
        comm_ns=0, exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=None, copy_exposed_ns=None, free_ns=free_ms * MS,
        preparing_ns=None, host_ns=None,
    )  # fmt: skip


STEPS = (step(0, 30), step(1, 5))


def facts(*rows: object) -> JobFacts:
    return JobFacts(JobMeasures(Job(steps=JobSteps(STEPS)), [*STEPS, *rows]))


def of(row: type, /, **known: Any) -> Any:
    """A row with these values, and None elsewhere."""
    return row(**{name: None for name in row.__dataclass_fields__} | known)  # type: ignore[attr-defined]


@each(symptoms().values(), lambda one: str(one.name))
def test_nothing_measured_is_nothing_said(symptom: Symptom) -> None:
    nothing = JobFacts(JobMeasures(Job(steps=JobSteps(()))))
    assert nothing.values(symptom.name, (symptom.of or ("",))[0]) == []


@pytest.mark.parametrize(
    ("text", "holds"),
    [("free.share > 0.2", True), ("free.share > 0.3", False), ("free.share < 0.1", True),
     ("copy.exposed_share > 0", None), ("compute.mfu < 0.3", None)],
)  # fmt: skip
def test_a_symptom_holds_of_any_rank_and_is_open_where_nothing_was_measured(text: str, holds: bool | None) -> None:
    assert facts().holds(parse(text)) is holds


def test_an_idle_leaf_is_added_up_over_its_places_and_zero_where_others_took_it() -> None:
    said = facts(*(of(LeafTime, rank=0, leaf=Leaf.INPUT_WORKERS, place=name, step_ns=10 * MS) for name in "ab"))
    assert said.values("idle.share_of", "input_workers") == [0.2]
    assert said.holds(parse("idle.share_of[compiling] > 0.05")) is False


def test_time_over_the_capture_is_of_one_step() -> None:
    row = of(Fetches, rank=0, device_free_ns=40 * MS, steps=4, kind="workers")
    assert facts(row).values("input.wait_share") == [0.1]


def test_a_setting_that_is_known_to_be_unset_is_not_one_that_was_not_recorded() -> None:
    said = facts(SettingValues(source="environment", name="TASK_QUEUE_ENABLE", values=((None, (0,)),), absent=()))
    assert said.holds(parse("setting[TASK_QUEUE_ENABLE] == unset")) is True
    assert said.holds(parse("setting[HCCL_DETERMINISTIC] == unset")) is None


def test_a_dimension_that_the_job_does_not_have_takes_no_time_and_has_no_speed() -> None:
    said = facts(of(GroupKind, kind="dp", transfer_ns=80 * MS, hidden_ns=60 * MS, ranks=2, of_link=0.4))
    assert said.values("comm.dimension_share", "dp") == [0.1]
    assert said.values("comm.dimension_share", "ep") == [0.0]
    assert said.values("comm.of_link", "ep") == []


def test_small_transfers_count_by_their_bytes() -> None:
    said = facts(
        of(Packets, transport="HCCS", least_bytes=4_096, bytes=10),
        of(Packets, transport="HCCS", least_bytes=67_108_864, bytes=30),
        of(Packets, transport="RDMA", least_bytes=4_096, bytes=50),
    )
    assert said.values("comm.small_share", "SDMA") == [0.25]
    assert said.values("comm.small_share", "RDMA") == [1.0]


def test_a_time_that_is_told_in_milliseconds_is_one() -> None:
    said = facts(of(Fetches, rank=0, longest_ns=3 * MS, median_ns=2 * MS))
    assert said.values("input.variation") == [1.5]


def test_symptoms_of_all_cases_can_be_held_against_a_real_report(shared: Path, tmp_path: Path) -> None:
    report = analyze(load([shared / "ascend" / "alexnet_text_level2"], Cache(tmp_path)))
    said = JobFacts(report.measures)
    answers = {symptom.text: said.holds(symptom) for case in cases() for symptom in case.symptoms}
    assert {True, False, None} == set(answers.values())
    # 14.2 ms of aclopCompileAndExecute in a step of 147 ms; no rank over another was measured.
    assert answers["event.steps_share[compilation] > 0.5"] is True
    assert said.values("event.share", "compilation")[0] == pytest.approx(14.232 / 147.347, abs=0.001)


# What a symptom may name -------------------------------------------------------------------------------------------


def test_every_reading_is_named_by_some_symptom_and_every_symptom_names_one() -> None:
    assert {symptom.measure for one in cases() for symptom in one.symptoms} == symptoms().keys()


def test_every_symptom_of_a_case_is_of_the_right_form() -> None:
    assert [told for one in cases() for symptom in one.symptoms if (told := faults_of_symptom(symptom))] == []


def test_units_are_of_a_few_kinds_and_brackets_are_words() -> None:
    assert {one.unit for one in symptoms().values()} == {"share", "ratio", "ms", "bytes", "count", "text"}
    assert all(one.of in ((), ANY) or len(set(one.of)) == len(one.of) > 1 for one in symptoms().values())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("free.shares > 0.1", "nothing measures"),
        ("free.share > much", "no number"),
        ("free.share > 10", "beyond 0 to 1"),
        ("free.share[python] > 0.1", "takes no brackets"),
        ("idle.share_of > 0.1", "needs brackets"),
        ("idle.share_of[coffee] > 0.1", "knows allocator"),
        ("input.loader > workers", "neither less nor more"),
    ],
)
def test_a_symptom_that_no_measure_can_answer_is_told_why(text: str, why: str) -> None:
    assert why in faults_of_symptom(parse(text))
