"""Symptoms are held against the report: true, false, or not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.advise.facts import _FORMS, Facts
from hermes.bundle.cache import Cache
from hermes.knowledge.cases import cases
from hermes.knowledge.cases.predicate import parse
from hermes.knowledge.measure_names import MEASURES
from hermes.report.document import document
from hermes.workflow.analyze import analyze
from hermes.workflow.load import load

STEP = {"rank": 0, "step": 1, "window_ms": 100.0, "free_ms": 30.0, "compute_ms": 70.0, "mfu": None}
OTHER = STEP | {"rank": 1, "free_ms": 5.0}


def facts(**blocks: object) -> Facts:
    return Facts({"steps": [STEP, OTHER], **blocks})


def test_every_measure_has_a_form_and_no_form_is_of_no_measure() -> None:
    assert _FORMS.keys() == MEASURES.keys()


@pytest.mark.parametrize("measure", MEASURES.values(), ids=lambda measure: measure.name)
def test_nothing_measured_is_nothing_said(measure: object) -> None:
    name, of = measure.name, (measure.of or ("",))[0]  # type: ignore[attr-defined]
    assert Facts({}).values(name, of) == []


@pytest.mark.parametrize(
    ("symptom", "holds"),
    [("free.share > 0.2", True), ("free.share > 0.3", False), ("free.share < 0.1", True),
     ("copy.exposed_share > 0", None), ("compute.mfu < 0.3", None)],
)  # fmt: skip
def test_a_symptom_holds_of_any_rank_and_is_open_where_nothing_was_measured(symptom: str, holds: bool | None) -> None:
    assert facts().holds(parse(symptom)) is holds


def test_free_time_of_a_reason_is_added_up_over_components_and_zero_where_others_took_it() -> None:
    rows = [{"rank": 0, "component": name, "reason": "data loading", "ms": 10.0} for name in ("host", "launch")]
    said = facts(free_time=rows)
    assert said.values("free.share_of", "data loading") == [0.2]
    assert said.holds(parse("free.share_of[compilation] > 0.05")) is False


def test_time_over_the_capture_is_of_one_step() -> None:
    fetches = [{"rank": 0, "device_free_ms": 40.0, "steps": 4, "kind": "workers"}]
    assert facts(input={"fetches": fetches}).values("input.wait_share") == [0.1]


def test_a_setting_that_is_known_to_be_unset_is_not_one_that_was_not_recorded() -> None:
    row: Mapping[str, object] = {
        "name": "TASK_QUEUE_ENABLE",
        "differs": False,
        "values": [{"value": None, "ranks": [0]}],
    }
    said = facts(host={"settings": [row]})
    assert said.holds(parse("setting[TASK_QUEUE_ENABLE] == unset")) is True
    assert said.holds(parse("setting[HCCL_DETERMINISTIC] == unset")) is None


def test_a_dimension_that_the_job_does_not_have_takes_no_time_and_has_no_speed() -> None:
    row = {"kind": "dp", "transfer_ms": 80.0, "hidden_ms": 60.0, "ranks": 2, "of_link": 0.4}
    said = facts(communication={"kinds": [row]})
    assert said.values("comm.dimension_share", "dp") == [0.1]
    assert said.values("comm.dimension_share", "ep") == [0.0]
    assert said.values("comm.of_link", "ep") == []


def test_small_transfers_count_by_their_bytes() -> None:
    rows = [
        {"transport": "HCCS", "least_bytes": 4_096, "bytes": 10},
        {"transport": "HCCS", "least_bytes": 67_108_864, "bytes": 30},
        {"transport": "RDMA", "least_bytes": 4_096, "bytes": 50},
    ]
    said = facts(communication={"packets": rows})
    assert said.values("comm.small_share", "SDMA") == [0.25]
    assert said.values("comm.small_share", "RDMA") == [1.0]


def test_symptoms_of_all_cases_can_be_held_against_a_real_report(shared: Path, tmp_path: Path) -> None:
    report = analyze(load([shared / "ascend" / "alexnet_text_level2"], Cache(tmp_path)))
    said = Facts(document(report))
    answers = {symptom.text: said.holds(symptom) for case in cases() for symptom in case.symptoms}
    assert {True, False, None} == set(answers.values())
    # 14.2 ms of aclopCompileAndExecute in a step of 130 ms; no rank over another was measured.
    assert answers["event.steps_share[compilation] > 0.5"] is True
    assert said.values("event.share", "compilation")[0] == pytest.approx(14.232 / 129.863, abs=0.001)
