"""The critical paths of reports: of real profiles, and of modelled jobs with a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.each import sampled
from tests.shared_jobs import FOUR, Jobs

from hermes.model.path_measures import StepPath
from hermes.model.report import Report
from hermes.model.step_measures import ArrivalWait
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, Job, generate

Reported = Callable[[str], Report]
REAL = (
    "ascend/alexnet_text_level0", "ascend/alexnet_text_level2", "ascend/alexnet_db_level0", "ascend/alexnet_db_level2",
    "ascend/writer_2024", "kineto/h100_qwen1.5-0.5b.json.gz", "kineto/mi300_qwen1.5-0.5b.json.gz",
    "kineto/v100_resnet50_num_workers_0.json.gz", "kineto/a100_alexnet_cuda_sync.json.gz",
    "kineto/event_sync_multi_stream.json.gz", "kineto/cpu_only_rank34.json.gz",
)  # fmt: skip
FORMATS = ("ascend-text", "ascend-db", "kineto")
EVERY_FORMAT = pytest.mark.parametrize("form", sampled(FORMATS, "kineto"))


def ms(path: StepPath, component: str, reason: str = "") -> float:
    """What a component takes of a path, on all ranks, in milliseconds."""
    chosen = [part for part in path.parts if part.component == component and reason in part.reason]
    return sum(part.ns for part in chosen) / 1e6


@pytest.mark.parametrize("name", REAL)
def test_every_path_of_a_real_profile_adds_up_to_its_window(name: str, reported: Reported) -> None:
    report = reported(name)
    assert report.paths
    for path in report.paths:
        assert sum(part.ns for part in path.parts) == path.window_ns
        assert path.unexplained_share < 0.05


def test_the_path_waits_for_the_rank_that_was_not_collected(reported: Reported) -> None:
    path = reported("ascend/alexnet_text_level2").paths[0]
    assert (path.rank, path.step) == (0, 50)
    assert ms(path, "wait", "rank 5") == pytest.approx(95.42, abs=0.05)
    other = reported("ascend/alexnet_db_level2").paths[0]
    assert ms(other, "wait", "rank 4") == pytest.approx(95.93, abs=0.05)


def test_reading_a_tensor_back_is_charged_to_what_it_waits_for(reported: Reported) -> None:
    # The host is in `_local_scalar_dense` for 86.77 ms; on the path it is for the return of the call.
    path = reported("ascend/alexnet_text_level2").paths[0]
    assert ms(path, "host", "synchronisation") < 1


def test_the_loading_of_data_is_on_the_path_of_a_trace_without_workers(reported: Reported) -> None:
    path = reported("kineto/v100_resnet50_num_workers_0.json.gz").paths[0]
    assert ms(path, "host", "data loading") > 0.2 * path.window_ns / 1e6


def test_kernels_in_flight_at_the_start_of_the_window_are_on_the_path(reported: Reported) -> None:
    # The device is busy for 45.3 of 49.3 ms; the rest of the path is the host.
    path = reported("kineto/h100_qwen1.5-0.5b.json.gz").paths[0]
    assert ms(path, "compute") == pytest.approx(43.4, abs=0.1)


@pytest.fixture
def modelled(jobs: Jobs) -> Callable[..., Report]:
    """The report on a modelled job of four ranks in one format, with faults."""
    return lambda form, *faults: jobs.report(replace(FOUR, faults=faults), form)


def path_of(report: Report) -> StepPath:
    return report.paths[0]


@EVERY_FORMAT
def test_a_healthy_job_is_on_its_compute_and_explained(form: str, modelled: Callable[..., Report]) -> None:
    path = path_of(modelled(form))
    assert ms(path, "compute") > 0.85 * path.window_ns / 1e6
    assert path.unexplained_share < 0.01


@EVERY_FORMAT
@pytest.mark.parametrize(
    ("kind", "component"),
    [
        ("slow_rank_compute", "compute"),
        ("frequency_drop", "compute"),
        ("ai_cpu_operators", "compute"),
        ("exposed_all_reduce", "communication"),
    ],
)
def test_a_fault_of_the_device_is_on_the_path_with_what_it_costs(
    form: str, kind: str, component: str, modelled: Callable[..., Report]
) -> None:
    sick, well = path_of(modelled(form, Fault(kind=kind))), path_of(modelled(form))  # type: ignore[arg-type]
    cost = (sick.window_ns - well.window_ns) / 1e6
    assert cost > 1
    assert ms(sick, component) - ms(well, component) == pytest.approx(cost, rel=0.06, abs=0.05)


@EVERY_FORMAT
def test_a_slow_link_takes_the_path_from_the_compute_that_hid_it(form: str, modelled: Callable[..., Report]) -> None:
    sick, well = path_of(modelled(form, Fault(kind="slow_link"))), path_of(modelled(form))
    cost = (sick.window_ns - well.window_ns) / 1e6
    moved = ms(sick, "communication") - ms(well, "communication")
    assert moved + ms(sick, "compute") - ms(well, "compute") == pytest.approx(cost, rel=0.05)


@EVERY_FORMAT
def test_a_slow_batch_is_on_the_path_as_data_loading(form: str, modelled: Callable[..., Report]) -> None:
    sick = modelled(form, Fault(kind="data_wait"))
    moved = ms(path_of(sick), "host", "data loading")
    assert moved == pytest.approx(15, rel=0.05)


def test_compilation_is_on_the_path_of_an_ascend_job(modelled: Callable[..., Report]) -> None:
    sick, well = (path_of(modelled("ascend-text", *faults)) for faults in ((Fault(kind="recompilation"),), ()))
    # While the host compiles, the device runs out of work: what it had been the path for is the other side.
    compiling = ms(sick, "host", "compilation")
    hidden = sum(ms(well, part) - ms(sick, part) for part in ("compute", "communication", "device gap"))
    assert compiling - hidden == pytest.approx((sick.window_ns - well.window_ns) / 1e6, rel=0.05)
    assert hidden < 0.2 * compiling


@EVERY_FORMAT
def test_the_path_of_any_rank_leads_to_the_slow_one(form: str, modelled: Callable[..., Report]) -> None:
    report = modelled(form, Fault(kind="slow_rank_compute", ranks=(2,)))
    first = report.paths[0]
    assert first.across
    assert sum(part.ns for part in first.parts if part.rank == 2) > 0.9 * first.window_ns
    waits = {(wait.rank, wait.peer) for wait in report.rows(ArrivalWait) if wait.total_ns > 1_000_000}
    assert waits == {(0, 2), (1, 2), (3, 2)}


@EVERY_FORMAT
def test_the_report_blames_the_slow_rank_in_every_format(form: str, modelled: Callable[..., Report]) -> None:
    report = modelled(form, Fault(kind="slow_rank_compute", ranks=(2,)))
    assert [finding.blames for finding in report.findings if finding.code == "COM002"] == [("rank 2",)]


def test_text_and_database_of_a_job_have_the_same_path(modelled: Callable[..., Report]) -> None:
    text, database = (modelled(form).paths for form in ("ascend-text", "ascend-db"))
    assert [path.parts for path in text] == [path.parts for path in database]


def test_the_order_in_which_ranks_are_given_does_not_matter(tmp_path: Path) -> None:
    made = generate(tmp_path / "job", Job(ranks=3, steps=2, layers=2), formats=["kineto"])
    files = sorted(made.glob("*.json*"))
    files = [file for file in files if file.name != "truth.json"]
    there, back = (analyze(load(order, Cache(tmp_path / "cache"))) for order in (files, files[::-1]))
    assert there.paths == back.paths
    assert there.rows(ArrivalWait) == back.rows(ArrivalWait)


@pytest.mark.slow
def test_the_names_of_files_do_not_matter(tmp_path: Path) -> None:
    made = generate(tmp_path / "job", Job(ranks=2, steps=2, layers=2), formats=["kineto"])
    before = analyze(load([made], Cache(tmp_path / "cache")))
    for number, file in enumerate(sorted(made.glob("*.json*"), reverse=True)):
        if file.name != "truth.json":
            file.rename(file.with_name(f"renamed{number}.pt.trace.json{'.gz' if file.suffix == '.gz' else ''}"))
    after = analyze(load([made], Cache(tmp_path / "cache")))
    assert after.paths == before.paths
    assert after.rows(ArrivalWait) == before.rows(ArrivalWait)
    assert [finding.code for finding in after.findings] == [finding.code for finding in before.findings]
