"""Rules of the host and the input on real captures, and on modelled jobs with a planted fault in three formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.each import sampled
from tests.shared_jobs import TWO, Jobs

from hermes.model.finding import Loss
from hermes.model.leaf import HOST_WAITS, Leaf
from hermes.model.leaf_time import JobLeaf
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault
from hermes_testing.faults import FaultKind
from hermes_testing.generate import Format
from hermes_testing.job import Job

Reported = Callable[[str], Report]
Findings = Callable[[FaultKind | None, Format], dict[str, Loss]]
FORMATS: tuple[Format, ...] = ("ascend-text", "ascend-db", "kineto")
EVERY_FORMAT = pytest.mark.parametrize("form", sampled(FORMATS, "ascend-db"))
LAYERS = ("IO", "CPU", "ENV", "MEM")


def of_layers(findings: tuple[Loss, ...]) -> dict[str, Loss]:
    """The findings of the host, the input, the environment and memory, in the order of the report."""
    return {one.code: one for one in findings if one.code.startswith(LAYERS)}


def planted(kind: FaultKind | None) -> Job:
    """A modelled job of two ranks with one fault."""
    return replace(TWO, faults=(Fault(kind=kind),) if kind else ())


@pytest.fixture
def findings(jobs: Jobs) -> Findings:
    """The findings of a modelled job of two ranks with one fault."""

    def made(kind: FaultKind | None, form: Format) -> dict[str, Loss]:
        return of_layers(jobs.report(planted(kind), form).findings)

    return made


@EVERY_FORMAT
def test_a_healthy_job_has_no_finding_of_the_host(form: Format, findings: Findings) -> None:
    assert findings(None, form) == {}


PLANTED: tuple[tuple[FaultKind, Format, str], ...] = (
    *(("data_wait", form, "IO001") for form in FORMATS),
    ("gc_pause", "ascend-text", "CPU006"),
    ("gc_pause", "ascend-db", "CPU006"),
    *(("recompilation", form, "CPU002") for form in FORMATS),
    *(("host_bound_dispatch", form, "CPU004") for form in FORMATS),
    *(("slow_rank_host", form, "CPU004") for form in FORMATS),
    *(("synchronisation_calls", form, "CPU003") for form in FORMATS),
)


@pytest.mark.parametrize(("kind", "form", "code"), PLANTED)
def test_a_planted_fault_is_named_first_at_about_its_cost(
    kind: FaultKind, form: Format, code: str, findings: Findings, jobs: Jobs
) -> None:
    found = findings(kind, form)
    assert next(iter(found)) == code
    truth = json.loads((jobs.folder(planted(kind), form) / "truth.json").read_text(encoding="utf-8"))
    # The step is so much longer than without the fault. Of a slow host a part lies in stretches of which nothing is
    # recorded, a leaf of their own, and a part hides behind the device.
    # The loss is read in each step: with a slow host, the lead that this costs is a part of the planted cost.
    assert set(found) <= {code, "CPU003"}
    cost = sum(one.cost_ns for one in found.values())
    assert cost == pytest.approx(truth["faults"][0]["cost_ns_per_step"], rel=0.45)


def test_collections_that_kineto_does_not_record_are_the_leaf_that_was_not_recorded(jobs: Jobs) -> None:
    report = jobs.report(replace(TWO, faults=(Fault(kind="gc_pause"),)), "kineto")
    assert of_layers(report.findings) == {}
    assert report.verdict.leaf is Leaf.NOT_RECORDED


@EVERY_FORMAT
def test_a_host_that_is_slow_on_one_rank_is_blamed_on_it(form: Format, findings: Findings) -> None:
    finding = findings("slow_rank_host", form)["CPU004"]
    assert (finding.ranks, finding.blames) == ((0,), ("rank 0",))
    assert findings("host_bound_dispatch", form)["CPU004"].ranks == (0, 1)


def test_a_loader_without_workers_is_the_first_cause_of_a_real_step(reported: Reported) -> None:
    found = of_layers(reported("kineto/v100_resnet50_num_workers_0.json.gz").findings)
    assert next(iter(found)) == "IO001"
    # Fetches take 213.022 ms of the six steps; the device is busy in some of that time.
    assert found["IO001"].cost_ns / 1e6 == pytest.approx(209.870 / 6, abs=0.01)
    assert found["IO001"].gain.low_ns > 20_000_000


@pytest.mark.parametrize("name", ["ascend/alexnet_text_level2", "ascend/alexnet_db_level2"])
def test_of_a_real_step_that_waits_for_another_rank_the_host_is_told_by_compilation(
    name: str, reported: Reported
) -> None:
    # Dispatch keeps the device waiting for 9% of the step, and a replay of faster dispatch gives nothing.
    (finding,) = of_layers(reported(name).findings).values()
    assert (finding.code, finding.ranks) == ("CPU002", (0, 1))


def test_reads_that_destroy_the_host_s_lead_are_the_cause_and_not_dispatch(reported: Reported) -> None:
    report = reported("kineto/a100_dlrm_control.json.gz")
    finding = of_layers(report.findings)["CPU003"]
    assert finding.about is Leaf.BLOCKING_COPY
    waits = sum(row.share for row in report.rows(JobLeaf) if row.leaf in HOST_WAITS)
    assert finding.share == pytest.approx(waits, abs=0.01)
    assert "CPU004" not in of_layers(report.findings)


def test_a_wait_at_the_end_of_a_real_step_is_found_with_its_line(reported: Reported) -> None:
    (finding,) = of_layers(reported("kineto/mi300_qwen1.5-0.5b.json.gz").findings).values()
    assert (finding.code, finding.about) == ("CPU003", Leaf.SYNCHRONISATION)
    assert finding.lines[0].endswith("`run_torch_profiler`")


@pytest.mark.parametrize("name", ["kineto/h100_qwen1.5-0.5b.json.gz", "kineto/cpu_only_rank34.json.gz"])
def test_steps_that_compute_bounds_or_that_tell_nothing_have_no_host_finding(name: str, reported: Reported) -> None:
    assert of_layers(reported(name).findings) == {}


def trace(tmp_path: Path, calls: list[tuple[str, str, float, float]]) -> Path:
    """A job on the CPU, three steps of 100 ms; calls by category, name, start in the step and length in ms."""
    rows = [
        {"ph": "X", "pid": 1, "tid": 1, "cat": cat, "name": name, "ts": (step * 100 + start) * 1e3, "dur": length * 1e3}
        for step in range(3)
        for cat, name, start, length in [("user_annotation", f"ProfilerStep#{step}", 0.0, 100.0), *calls]
    ]
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    return path


@pytest.mark.parametrize(
    ("iterator", "fault"),
    [("_SingleProcessDataLoaderIter", "data_loading"), ("_MultiProcessingDataLoaderIter", "too_few_workers")],
)
def test_a_job_without_a_device_is_judged_by_the_step_of_its_host(
    iterator: str, fault: str, tmp_path: Path, store: Cache
) -> None:
    fetch = ("user_annotation", f"enumerate(DataLoader)#{iterator}.__next__", 0.0, 40.0)
    path = trace(tmp_path, [fetch, ("cpu_op", "aten::mm", 45.0, 50.0)])
    (finding,) = analyze(load([path], store)).findings
    assert (finding.code, finding.fault, finding.cost_ns, finding.share) == ("IO001", fault, 40_000_000, 0.4)


def test_a_job_without_a_device_whose_batches_are_ready_has_no_finding(tmp_path: Path, store: Cache) -> None:
    fetch = ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0.0, 0.2)
    assert analyze(load([trace(tmp_path, [fetch, ("cpu_op", "aten::mm", 1.0, 98.0)])], store)).findings == ()
