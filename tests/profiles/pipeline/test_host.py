"""Overlap, input, host and memory of reports: of real profiles, and of modelled jobs with a planted fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.each import sampled
from tests.shared_jobs import TWO, Jobs

from hermes.model.host_measures import CoreLoad, Dispatch, HostEvents, QueueDepth, StepHost, SyncCall
from hermes.model.input_measures import Fetches, InputCopies, InputRates
from hermes.model.memory_measures import Holder, MemoryPeak
from hermes.model.overlap_measures import StepOverlap
from hermes.model.report import Report
from hermes.profiles.load import load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault, FaultKind, Format, Job, generate

Reported = Callable[[str], Report]
REAL = (
    "ascend/alexnet_text_level0", "ascend/alexnet_text_level2", "ascend/alexnet_db_level0", "ascend/alexnet_db_level2",
    "ascend/writer_2024", "kineto/h100_qwen1.5-0.5b.json.gz", "kineto/mi300_qwen1.5-0.5b.json.gz",
    "kineto/v100_resnet50_num_workers_0.json.gz", "kineto/a100_alexnet_cuda_sync.json.gz",
    "kineto/event_sync_multi_stream.json.gz", "kineto/cpu_only_rank34.json.gz",
)  # fmt: skip
FORMATS = ("ascend-text", "ascend-db", "kineto")
EVERY_FORMAT = pytest.mark.parametrize("form", sampled(FORMATS, "ascend-db"))


def event(report: Report, what: str, rank: int = 0) -> HostEvents:
    return next(row for row in report.rows(HostEvents) if (row.rank, row.what) == (rank, what))


@pytest.mark.parametrize("name", REAL)
def test_what_must_add_up_adds_up_in_every_real_profile(name: str, reported: Reported) -> None:
    report = reported(name)
    splits = {(split.rank, split.step): split for split in report.steps}
    assert report.rows(StepOverlap)
    for row in report.rows(StepOverlap):
        split = splits[(row.rank, row.step)]
        assert sum(state.ns for state in row.states) == row.window_ns == split.window_ns
        if split.compute_ns is not None:
            busy = {"compute": 0, "communication": 0, "copy": 0}
            for state in row.states:
                first = next((word for word in busy if any(one.startswith(word) for one in state.components)), None)
                if first:
                    busy[first] += state.ns
            assert tuple(busy.values()) == (split.compute_ns, split.exposed_comm_ns, split.copy_exposed_ns)
    for host in report.rows(StepHost):
        assert sum(part.ns for part in host.parts) == host.host_ns
    for call in report.rows(SyncCall):
        assert call.compute_ns + call.comm_ns + call.copy_ns + call.idle_ns == call.wait_ns
    for depth in report.rows(QueueDepth):
        assert min(depth.curve) >= 0
        assert depth.mean == pytest.approx(sum(depth.curve) / len(depth.curve), abs=0.01)


def test_the_calls_that_compile_are_found_with_their_time(reported: Reported) -> None:
    found = event(reported("ascend/alexnet_text_level2"), "compilation")
    assert (found.calls, found.ns) == (19, 14_231_860)
    assert found.names == (("aclopCompileAndExecute", 19, 14_231_860), ("opCompile", 19, 411_650))


@pytest.mark.parametrize("name", ["ascend/alexnet_text_level2", "ascend/alexnet_db_level2"])
def test_reading_back_is_told_with_its_line_and_the_collective_it_waited_for(name: str, reported: Reported) -> None:
    call = next(row for row in reported(name).rows(SyncCall) if row.rank == 0)
    assert call.operator == "aten::_local_scalar_dense"
    assert call.source is not None
    assert call.source.endswith("main.py(485): __str__")
    assert call.comm_ns > 0.94 * call.wait_ns
    assert call.idle_ns < 0.02 * call.wait_ns


def test_the_wait_of_reading_back_is_the_time_of_the_operator(reported: Reported) -> None:
    # 86.77 ms by the trace; what is left lies in the operator and around its runtime calls.
    rows = [row for row in reported("ascend/alexnet_text_level2").rows(SyncCall) if row.rank == 0]
    read = sum(row.wait_ns for row in rows if row.operator == "aten::_local_scalar_dense")
    assert read / 1e6 == pytest.approx(86.77, rel=0.015)


def test_a_loader_in_the_main_process_needs_one_worker(reported: Reported) -> None:
    report = reported("kineto/v100_resnet50_num_workers_0.json.gz")
    (found,), (rates,) = report.rows(Fetches), report.rows(InputRates)
    assert (found.kind, found.fetches, found.wait_ns, found.longest_step) == ("main process", 6, 272_769_000, 21)
    assert found.reading_ns is None
    assert found.processing_ns is not None
    assert 0.3 < found.processing_ns / found.wait_ns < 0.5
    assert (rates.workers_needed, rates.cores_free) == (1, None)
    (copies,) = report.rows(InputCopies)
    assert (copies.copies, copies.bytes, copies.pageable_bytes) == (12, 115_607_040, 115_607_040)


def test_the_weights_of_the_first_layer_hold_most_memory_in_the_backward_pass(reported: Reported) -> None:
    holders = [row for row in reported("ascend/alexnet_text_level2").rows(Holder) if row.rank == 0]
    named = next(row for row in holders if row.module is not None)
    # 9216 x 4096 numbers of four bytes, in blocks of 512 bytes and more.
    assert (named.module, named.operator) == ("Linear_0 (backward)", "aten::mm")
    assert named.bytes == pytest.approx(9_216 * 4_096 * 4, rel=0.001)


def test_what_was_not_recorded_is_not_measured(reported: Reported) -> None:
    report = reported("kineto/cpu_only_rank34.json.gz")
    for kind in (Fetches, InputCopies, Dispatch, QueueDepth, MemoryPeak, CoreLoad):
        assert report.rows(kind) == ()
    assert event(reported("kineto/h100_qwen1.5-0.5b.json.gz"), "garbage collection").ns is None


Made = Callable[..., tuple[Report, dict[str, Any]]]


@pytest.fixture
def modelled(jobs: Jobs) -> Made:
    """The report on a modelled job of two ranks with stacks in one format, and its truth."""

    def report(form: Format, kind: FaultKind | None = None) -> tuple[Report, dict[str, Any]]:
        job = replace(TWO, stacks=True, faults=(Fault(kind=kind),) if kind else ())
        return jobs.report(job, form), json.loads((jobs.folder(job, form) / "truth.json").read_text("utf-8"))

    return report


def step_of(report: Report) -> StepHost:
    return next(row for row in report.rows(StepHost) if row.rank == 0)


def added(truth: dict[str, Any], step: int | None = None) -> int:
    """What the fault added on rank 0, in one step or in all."""
    rows = truth["faults"][0]["injected"]
    return sum(row["ns"] for row in rows if row["rank"] == 0 and step in (None, row["step"]))


@EVERY_FORMAT
def test_a_wait_for_data_moves_the_fetches_and_nothing_else(form: str, modelled: Made) -> None:
    (sick, truth), (well, _) = modelled(form, "data_wait"), modelled(form)
    assert sick.rows(Fetches)[0].wait_ns - well.rows(Fetches)[0].wait_ns == added(truth)
    assert step_of(sick).of("data loading") - step_of(well).of("data loading") == added(truth, step_of(sick).step)
    # All that follows comes later; nothing becomes more or longer.
    rest, before = (
        [replace(row, longest_at_ns=None) for row in report.rows(HostEvents) if row.rank == 0 and row.calls]
        for report in (sick, well)
    )
    assert rest == before


@EVERY_FORMAT
def test_a_collection_moves_collections_and_nothing_else(form: str, modelled: Made) -> None:
    (sick, truth), (well, _) = modelled(form, "gc_pause"), modelled(form)
    found = event(sick, "garbage collection")
    assert (found.calls, found.ns) == (3, added(truth))
    assert step_of(sick).of("garbage collection") == added(truth, step_of(sick).step)
    assert sick.rows(Fetches)[0].wait_ns == well.rows(Fetches)[0].wait_ns
    assert event(sick, "compilation") == event(well, "compilation")


@EVERY_FORMAT
def test_compilation_moves_compilation_and_nothing_else(form: str, modelled: Made) -> None:
    (sick, truth), (well, _) = modelled(form, "recompilation"), modelled(form)
    found = event(sick, "compilation")
    assert (found.calls, found.steps_hit) == (36, 3)
    assert found.ns == pytest.approx(added(truth), rel=0.005)
    assert sick.rows(Fetches)[0].wait_ns == well.rows(Fetches)[0].wait_ns
    assert event(sick, "garbage collection") == event(well, "garbage collection")


@EVERY_FORMAT
def test_a_slow_host_moves_its_own_work_by_what_was_added(form: str, modelled: Made) -> None:
    (sick, truth), (well, _) = modelled(form, "host_bound_dispatch"), modelled(form)

    def own(report: Report) -> int:
        row = step_of(report)
        return row.host_ns - row.of("synchronisation") + (row.queue_ns or 0)

    # On CUDA the call of the copy that waits is slow too, and counts as synchronisation.
    assert own(sick) - own(well) == pytest.approx(added(truth, step_of(sick).step), rel=0.003)
    ratio, before = (report.rows(Dispatch)[0].ratio for report in (sick, well))
    assert ratio is not None
    assert before is not None
    assert ratio > 1 > before
    assert sick.rows(QueueDepth)[0].mean < well.rows(QueueDepth)[0].mean


@EVERY_FORMAT
def test_a_rank_with_a_slow_host_is_the_only_one_that_moves(form: str, modelled: Made) -> None:
    (sick, _), (well, _) = modelled(form, "slow_rank_host"), modelled(form)
    slow, other = (
        {row.rank: row.of("operators", "python") for row in report.rows(StepHost)} for report in (sick, well)
    )
    assert slow[0] > 5 * other[0]
    assert slow[1] == pytest.approx(other[1], rel=0.05)


@EVERY_FORMAT
def test_synchronising_calls_are_counted_with_the_line_that_makes_them(form: str, modelled: Made) -> None:
    (sick, _), (well, _) = modelled(form, "synchronisation_calls"), modelled(form)

    def calls(report: Report) -> dict[str | None, int]:
        return {
            row.source: row.calls
            for row in report.rows(SyncCall)
            if row.rank == 0 and row.operator == "aten::_local_scalar_dense"
        }

    assert calls(well) == {"train.py(88): train_step": 1}
    assert calls(sick) == {"train.py(88): train_step": 65}
    row = next(row for row in sick.rows(SyncCall) if row.rank == 0)
    assert row.refill_ns > 0


@EVERY_FORMAT
def test_the_task_queue_is_told_where_there_is_one(form: str, modelled: Made) -> None:
    found = modelled(form)[0].rows(Dispatch)[0]
    assert found.task_queue == (None if form == "kineto" else "on")
    assert found.linked == found.tasks


def test_text_and_database_of_a_job_have_the_same_measures(modelled: Made) -> None:
    text, database = (modelled(form)[0] for form in ("ascend-text", "ascend-db"))
    for kind in (StepOverlap, StepHost, SyncCall, Fetches, Holder):
        assert text.rows(kind) == database.rows(kind)
    # The text has the moment at which the arrow leaves, the database that at which the call began.
    for one, other in zip(text.rows(QueueDepth), database.rows(QueueDepth), strict=True):
        assert (one.tasks, one.median) == (other.tasks, other.median)
        assert one.mean == pytest.approx(other.mean, rel=0.01)


def test_a_job_without_a_task_queue_launches_from_the_threads_that_dispatch(tmp_path: Path) -> None:
    made = generate(tmp_path / "job", Job(ranks=1, steps=2, layers=1, task_queue=False), formats=["ascend-text"])
    report = analyze(load([made], Cache(tmp_path / "cache")))
    assert (report.rows(Dispatch)[0].task_queue, report.rows(StepHost)[0].queue_ns) == ("off", None)
