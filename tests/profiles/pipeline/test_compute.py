"""Compute in reports: of real profiles, and of modelled jobs with a planted fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.each import sampled
from tests.shared_jobs import FOUR, Jobs

from hermes.model.compute_measures import ChipUsed, KindCost, OperatorCost, StepCompute
from hermes.model.report import Report
from hermes.profiles.load import Loaded, load
from hermes.profiles.pipeline.analyze import analyze
from hermes.store.cache import Cache
from hermes_testing import Fault
from hermes_testing.faults import FaultKind

Real = Callable[[str], Loaded]
Reported = Callable[[str], Report]
REAL = (
    "ascend/alexnet_text_level0", "ascend/alexnet_text_level2", "ascend/alexnet_db_level0", "ascend/alexnet_db_level2",
    "ascend/writer_2024", "kineto/h100_qwen1.5-0.5b.json.gz", "kineto/mi300_qwen1.5-0.5b.json.gz",
    "kineto/v100_resnet50_num_workers_0.json.gz", "kineto/a100_alexnet_cuda_sync.json.gz",
    "kineto/event_sync_multi_stream.json.gz", "kineto/cpu_only_rank34.json.gz",
)  # fmt: skip
H100, MI300 = "kineto/h100_qwen1.5-0.5b.json.gz", "kineto/mi300_qwen1.5-0.5b.json.gz"
FORMATS = ("ascend-text", "ascend-db", "kineto")
EVERY_FORMAT = pytest.mark.parametrize("form", sampled(FORMATS, "ascend-db"))


def row(report: Report, operator: str, shapes: str) -> OperatorCost:
    (found,) = [one for one in report.rows(OperatorCost) if (one.operator, one.shapes) == (operator, shapes)]
    return found


def test_the_matmul_of_the_h100_is_where_others_found_it(reported: Reported) -> None:
    # TraceLens on the same file: 48 calls, 84.48 us, 610.7 TFLOP/s, 61.7 % of 989.
    found = row(reported(H100), "aten::mm", "8944,1024;1024,2816")
    assert (found.calls, found.kernels) == (48, 96)
    assert found.tflops == pytest.approx(610.7, abs=0.05)
    assert found.roof_share == pytest.approx(0.617, abs=0.0005)
    assert (found.limit, found.precision, found.chip) == ("compute", "bf16", "H100 SXM")


@pytest.mark.parametrize("name", [H100, "ascend/alexnet_text_level2"])
def test_compute_is_the_same_to_the_last_digit_each_time(name: str, real: Real) -> None:
    loaded = real(name)
    first, *others = (repr(analyze(loaded).measured) for _ in range(5))
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("trace", "operator", "shapes", "calls", "us", "tflops"),
    [
        (H100, "aten::mm", "8944,2816;2816,1024", 24, 76.47, 674.6),
        (H100, "aten::addmm", "1024;8944,1024;1024,1024;;", 72, 32.35, 580.2),
        (MI300, "aten::mm", "8944,1024;1024,2816", 48, 110.59, 466.8),
        (MI300, "aten::mm", "8944,2816;2816,1024", 24, 98.95, 521.9),
        (MI300, "aten::addmm", "1024;8944,1024;1024,1024;;", 72, 41.04, 457.6),
    ],
)
def test_other_products_agree_with_tracelens_too(
    trace: str, operator: str, shapes: str, calls: int, us: float, tflops: float, reported: Reported
) -> None:
    found = row(reported(trace), operator, shapes)
    # They print means, rates here are those of the median call.
    assert found.calls == calls
    assert found.ns / calls / 1e3 == pytest.approx(us, rel=0.002)
    assert found.tflops == pytest.approx(tflops, rel=0.01)


def test_the_attention_of_the_h100_is_causal_and_bound_by_memory(reported: Reported) -> None:
    (found,) = [one for one in reported(H100).rows(OperatorCost) if one.operator == "aten::_flash_attention_forward"]
    assert found.flops == 4 * 16 * 16 * 559 * 559 * 64 // 2
    assert found.tflops == pytest.approx(90.3, rel=0.005)
    assert found.roof_share == pytest.approx(0.193, rel=0.01)
    assert (found.limit, found.note) == ("memory", "")


def test_kernels_in_flight_from_before_the_window_are_counted(reported: Reported) -> None:
    report = reported(H100)
    # 45.43 ms of kernels in the trace (truth.json), 436 of them launched before it began; and fills beside products.
    assert sum(kind.ns for kind in report.rows(KindCost)) == pytest.approx(45_432_698, rel=0.005)
    (matmul,) = [kind for kind in report.rows(KindCost) if kind.kind == "matmul"]
    assert matmul.roofed_ns < matmul.ns
    assert matmul.calls > 48 + 24 + 24 + 72


@pytest.mark.parametrize("name", REAL)
def test_nothing_in_a_real_profile_is_above_its_roof(name: str, reported: Reported) -> None:
    report = reported(name)
    for found in report.rows(OperatorCost):
        assert found.roof_share is None or 0 <= found.roof_share <= 1
        assert found.roof_share is None or found.bound is not None
    for kind in report.rows(KindCost):
        assert kind.roof_share is None or 0 <= kind.roof_share <= 1
    for step in report.rows(StepCompute):
        assert step.mfu is None or 0 < step.mfu < 1


@pytest.mark.parametrize("name", REAL)
def test_classes_and_operators_hold_all_the_time_of_kernels(name: str, reported: Reported) -> None:
    report = reported(name)
    assert sum(kind.ns for kind in report.rows(KindCost)) == sum(found.ns for found in report.rows(OperatorCost))
    assert sum(kind.share for kind in report.rows(KindCost)) == pytest.approx(1 if report.rows(KindCost) else 0)


@pytest.mark.parametrize("name", ["ascend/alexnet_text_level2", "ascend/alexnet_db_level2"])
def test_counters_tell_the_chip_of_the_real_ascend_job(name: str, reported: Reported) -> None:
    # The text names none, the database a series; 24 cubes at 1800 MHz are a 910B2.
    (chip,) = reported(name).rows(ChipUsed)
    assert (chip.chip, chip.told_by, chip.ranks, chip.cores, chip.mhz) == ("Ascend910B2", "counters", (0, 1), 24, 1_800)


def test_the_alexnet_of_ascend_has_its_products_convolutions_and_formats(reported: Reported) -> None:
    report = reported("ascend/alexnet_text_level2")
    product = row(report, "MatMulV2", "32,9216;4096,9216;4096")
    assert product.flops == 2 * 32 * 9216 * 4096
    assert (product.limit, product.precision) == ("memory", "fp32")
    convolution = row(report, "Conv2D", "32,8,27,27,8;200,12,16,8;192")
    assert convolution.flops == 2 * 32 * 27 * 27 * 192 * 64 * 25
    assert (convolution.precision, convolution.note) == ("hf32", "padding counted")
    first = next(step for step in report.rows(StepCompute) if step.rank == 0)
    # kernel_details.csv: 57 TransData take 1393.328 us on rank 0; the step computes for 8868.240 us.
    assert first.conversion_ns == pytest.approx(1_393_328, abs=60)
    assert first.kernel_ns == pytest.approx(8_868_240, abs=60)
    assert (first.mhz, first.losses.frequency_ns, first.ai_cpu_ns) == (1_800.0, 0, 0)


def test_ai_cpu_and_casts_of_an_old_capture_are_told_without_kernel_details(reported: Reported) -> None:
    (step,) = reported("ascend/writer_2024").rows(StepCompute)
    assert step.ai_cpu_ns == 327_567
    assert step.conversion_ns > 400_000
    assert step.mfu is None


def test_convolutions_in_float32_that_are_faster_than_float32_say_so(reported: Reported) -> None:
    # cuDNN's Winograd kernels need fewer operations than a convolution has.
    found = row(
        reported("kineto/v100_resnet50_num_workers_0.json.gz"),
        "aten::cudnn_convolution_backward_input", ";32,256,14,14;256,256,3,3;;;;;;;",
    )  # fmt: skip
    assert found.tflops is not None
    assert found.tflops > 15.7
    assert found.roof_share is None
    assert "faster than the peak" in found.note


@pytest.fixture
def report_of(jobs: Jobs) -> Callable[..., Report]:
    return lambda form, *faults: jobs.report(replace(FOUR, faults=faults), form)


@EVERY_FORMAT
def test_a_healthy_job_has_no_loss_of_clock_or_ai_cpu(form: str, report_of: Callable[..., Report]) -> None:
    for step in report_of(form).rows(StepCompute):
        assert step.losses.frequency_ns in (None, 0)
        assert step.ai_cpu_ns in (None, 0)
        assert abs(step.over_peers_ns or 0) < 0.01 * step.kernel_ns
        # The device that Kineto's jobs are modelled on is none whose roof is known.
        assert (step.mfu is None) == (form == "kineto")
        assert step.known_share is not None
        assert 0.5 < step.known_share < 1


@pytest.mark.parametrize("form", sampled(FORMATS[:2], "ascend-db"))
def test_a_planted_frequency_drop_comes_back_in_full(form: str, report_of: Callable[..., Report]) -> None:
    # A third less clock: of a kernel's time a third is lost.
    report = report_of(form, Fault(kind="frequency_drop"))
    for step in report.rows(StepCompute):
        lost = step.losses.frequency_ns
        assert lost is not None
        assert lost == pytest.approx(0.33 * step.kernel_ns if step.rank == 0 else 0, rel=0.001)
        assert step.mhz == (1_206.0 if step.rank == 0 else 1_800.0)


@pytest.mark.parametrize(
    ("kind", "form"),
    sampled(
        [("frequency_drop", "kineto"), *(("slow_rank_compute", form) for form in FORMATS)],
        ("slow_rank_compute", "ascend-db"),
    ),
)
def test_a_slow_rank_takes_longer_than_its_peers_by_what_was_planted(
    kind: FaultKind, form: str, report_of: Callable[..., Report]
) -> None:
    well = report_of(form)
    sick = report_of(form, Fault(kind=kind))
    for before, after in zip(well.rows(StepCompute), sick.rows(StepCompute), strict=True):
        grown = after.kernel_ns - before.kernel_ns
        # The median of four ranks moves a little when one of them leaves its middle.
        noise = 0.01 * before.kernel_ns
        assert (after.over_peers_ns or 0) - (before.over_peers_ns or 0) == pytest.approx(grown, abs=noise)
        assert (grown > 1_000_000) == (after.rank == 0)


@pytest.mark.parametrize("form", sampled(FORMATS[:2], "ascend-db"))
def test_planted_ai_cpu_operators_come_back_in_full(form: str, report_of: Callable[..., Report]) -> None:
    report = report_of(form, Fault(kind="ai_cpu_operators"))
    assert {step.ai_cpu_ns for step in report.rows(StepCompute)} == {6 * 1_500_000}


def on_a_cpu(folder: Path, *spans: tuple[str, int, int]) -> dict[str, tuple[str, int]]:
    """Operators by name with their class and nanoseconds, of a job on a CPU with these calls (in microseconds)."""
    trace = {
        "schemaVersion": 1,
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}
            for name, ts, dur in spans
        ],
    }  # fmt: skip
    (folder / "cpu.pt.trace.json").write_text(json.dumps(trace))
    rows = analyze(load([folder / "cpu.pt.trace.json"], Cache(folder / "cache"))).rows(OperatorCost)
    return {row.operator: (row.kind, row.ns) for row in rows}


def test_a_product_on_a_cpu_counts_though_it_calls_small_operators(tmp_path: Path) -> None:
    found = on_a_cpu(tmp_path, ("aten::linear", 0, 110), ("aten::addmm", 5, 100), ("aten::copy_", 10, 20))
    assert found == {"aten::addmm": ("matmul", 80_000), "aten::copy_": ("copy", 20_000)}


def test_copies_on_a_cpu_are_told_apart_by_who_asks_for_them(tmp_path: Path) -> None:
    found = on_a_cpu(
        tmp_path, ("aten::_to_copy", 0, 50), ("aten::copy_", 1, 40), ("aten::contiguous", 60, 50),
        ("aten::clone", 61, 48), ("aten::copy_", 62, 45), ("aten::copy_", 120, 30),
    )  # fmt: skip
    assert found == {
        "aten::_to_copy": ("cast", 40_000), "aten::contiguous": ("transpose", 45_000), "aten::copy_": ("copy", 30_000),
    }  # fmt: skip


def test_a_job_on_a_cpu_has_the_rates_of_its_operators(tmp_path: Path) -> None:
    trace = {
        "schemaVersion": 1,
        "traceEvents": [
            {
                "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
                "args": {"External id": at, "Input Dims": [[64, 128], [128, 32]], "Input type": ["float", "float"]},
            }
            for at, (name, ts, dur) in enumerate([("aten::matmul", 100, 60), ("aten::mm", 110, 40)], start=1)
        ],
    }  # fmt: skip
    (tmp_path / "cpu.pt.trace.json").write_text(json.dumps(trace))
    report = analyze(load([tmp_path / "cpu.pt.trace.json"], Cache(tmp_path / "cache")))
    (found,) = report.rows(OperatorCost)
    # The operator around it does no work of its own.
    assert (found.operator, found.flops, found.median_ns) == ("aten::mm", 2 * 64 * 128 * 32, 40_000)
    assert found.tflops == pytest.approx(2 * 64 * 128 * 32 / 40_000 / 1e3)
    assert found.roof_share is None


def test_a_layout_that_an_operator_asks_for_itself_is_no_copy_of_the_programs(tmp_path: Path) -> None:
    found = on_a_cpu(
        tmp_path, ("aten::_pack_padded_sequence", 0, 100), ("aten::contiguous", 10, 80), ("aten::clone", 11, 78),
        ("aten::copy_", 12, 76),
    )  # fmt: skip
    assert found["aten::copy_"] == ("copy", 76_000)
    assert "aten::contiguous" not in found


def test_a_type_that_the_gradient_of_an_operator_makes_itself_is_no_cast_of_the_programs(tmp_path: Path) -> None:
    casts = ("aten::_to_copy", 12, 76), ("aten::copy_", 13, 74)
    node = "autograd::engine::evaluate_function: {}Backward0"
    for name, found in (("Amax", "aten::copy_"), ("ToCopy", "aten::_to_copy")):
        (tmp_path / name).mkdir()
        made = on_a_cpu(tmp_path / name, (node.format(name), 0, 100), ("aten::sum", 5, 90), *casts)
        assert found in made, name
