"""Compute by signature, class and step: from rows of kernels to shares of a roof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from hermes.base.intervals import union_of_intervals
from hermes.knowledge.identify_chip import chip_of
from hermes.model.compute_measures import ChipUsed, KindCost, OperatorCost, StepCompute
from hermes.model.job import Job, JobMeasures
from hermes.model.step_measures import StepSplit
from hermes.model.tables import TABLES, empty
from hermes.model.typical_step import JobSteps
from hermes.profiles.measure.compute.kernel_sums import KERNEL_COLUMNS, RankCompute, rank_compute
from hermes.profiles.measure.compute.recomputed_work import recomputed, scoped
from hermes.profiles.measure.compute.roofline import compute_of

H100 = "NVIDIA H100 80GB HBM3"
MM = {"type": "aten::mm", "input_shapes": "8944,1024;1024,2816", "input_dtypes": "c10::BFloat16;c10::BFloat16"}


def kernels(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of `kernel`: by default a compute kernel of step 1, one after the other, each of its own call."""
    made = []
    start = 0
    for at, row in enumerate(rows):
        full = {
            "rank": 0, "kernel_id": at, "name": f"kernel{at}", "component": "compute", "unit": "sm", "start_ns": start,
            "dur_ns": 1_000, "step": 1, "launch_ns": start, "call": at,
        } | row  # fmt: skip
        start = full["start_ns"] + full["dur_ns"]
        made.append(full)
    schema = {column: empty(TABLES["kernel"]).schema[column] for column in ("rank", *KERNEL_COLUMNS)}
    return pl.DataFrame(made, schema=schema)


def split(rank: int = 0, window_ns: int = 100_000, step: int | None = 1) -> StepSplit:
    return StepSplit(
        rank=rank, step=step, window_kind="host", start_ns=0, window_ns=window_ns, compute_ns=0, comm_ns=0,
        exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=0, preparing_ns=0, host_ns=0,
    )  # fmt: skip


def of(rows: pl.DataFrame, rank: int = 0, chip: str | None = H100, vendor: str = "nvidia", **more: Any) -> RankCompute:
    found = rank_compute(rank, rows, vendor=vendor, recorded=chip, chip=chip_of(chip), **more)
    assert found is not None
    return found


def computed(told: Iterable[RankCompute], splits: Sequence[StepSplit]) -> JobMeasures:
    return JobMeasures(Job(steps=JobSteps(splits)), compute_of(told, splits))


def compute(rows: pl.DataFrame, **more: Any) -> JobMeasures:
    return computed([of(rows, **more)], [split()])


def only(found: JobMeasures) -> OperatorCost:
    (row,) = found.rows(OperatorCost)
    return row


def first(found: JobMeasures) -> StepCompute:
    return found.rows(StepCompute)[0]


def test_a_product_is_held_against_the_rate_of_its_type() -> None:
    row = only(compute(kernels(MM | {"dur_ns": 84_463})))
    assert row.flops == 2 * 8944 * 1024 * 2816
    assert row.tflops == pytest.approx(610.7, abs=0.05)
    assert row.roof_share == pytest.approx(0.6172, abs=0.0001)
    assert (row.kind, row.precision, row.limit, row.bound) == ("matmul", "bf16", "compute", "neither")


def test_kernels_of_one_call_are_one_time() -> None:
    rows = kernels(*[MM | {"dur_ns": 40_000, "call": call} for call in (7, 7, 8, 8)])
    row = only(compute(rows))
    assert (row.calls, row.kernels, row.ns, row.median_ns) == (2, 4, 160_000, 80_000)
    assert row.tflops == pytest.approx(2 * 8944 * 1024 * 2816 / 80_000 / 1e3)


def test_a_fill_beside_the_kernels_of_a_call_is_time_of_the_call() -> None:
    fill = {"component": "copy", "unit": "copy", "name": "Memset (Device)", "type": None, "dur_ns": 800}
    row = only(compute(kernels(MM | {"dur_ns": 83_000, "call": 7}, fill | {"call": 7}, fill | {"call": None})))
    assert (row.calls, row.median_ns) == (1, 83_800)


def test_nothing_is_shown_above_its_roof() -> None:
    # 51.6 GFLOP take 52.1 us at 989.4 TFLOP/s.
    row = only(compute(kernels(MM | {"dur_ns": 50_000})))
    assert row.roof_share is None
    assert row.bound is None
    assert "faster than the peak of bf16" in row.note


def test_what_is_faster_than_memory_came_from_a_cache() -> None:
    add = {"type": "aten::add", "input_shapes": "1024,1024;1024,1024;", "input_dtypes": "float;float;Scalar"}
    # 12.6 MB take 3.75 us at 3352 GB/s.
    slow, fast = (only(compute(kernels(add | {"dur_ns": ns}))) for ns in (4_000, 3_000))
    assert slow.roof_share == pytest.approx(3.754 / 4, abs=0.001)
    assert slow.bound == "memory"
    assert fast.roof_share is None
    assert "cache" in fast.note


def test_without_a_known_chip_there_are_rates_and_no_roof() -> None:
    found = compute(kernels(MM | {"dur_ns": 84_463}), chip="NVIDIA Imaginary 1")
    row = only(found)
    assert row.tflops == pytest.approx(610.7, abs=0.05)
    assert (row.roof_share, row.limit, row.chip) == (None, None, None)
    assert first(found).mfu is None
    (chip,) = found.rows(ChipUsed)
    assert (chip.recorded, chip.chip, chip.told_by) == ("NVIDIA Imaginary 1", None, "nothing")


def test_without_shapes_there_is_time_and_nothing_else() -> None:
    found = compute(kernels(MM | {"input_shapes": None, "input_dtypes": None}))
    row = only(found)
    assert (row.kind, row.flops, row.bytes, row.tflops, row.roof_share) == ("matmul", None, None, None, None)
    assert "no formula" in row.note
    assert (first(found).mfu, first(found).known_share, first(found).flops) == (None, 0.0, None)


def test_a_kernel_that_no_operator_launched_counts_by_its_name() -> None:
    found = compute(kernels({"type": None, "call": None, "name": "sm90_xmma_gemm_bf16", "dur_ns": 500}))
    assert [(row.kind, row.ns) for row in found.rows(KindCost)] == [("matmul", 500)]


def test_mfu_is_the_least_time_at_the_peak_by_the_window() -> None:
    found = compute(kernels(MM | {"dur_ns": 80_000}, {"type": "aten::relu", "dur_ns": 5_000}))
    row = first(found)
    assert row.mfu == pytest.approx(2 * 8944 * 1024 * 2816 / 989.4e12 * 1e9 / 100_000)
    assert row.known_share == 1.0
    assert row.kernel_ns == 85_000


def test_mfu_is_at_least_what_the_known_part_gives() -> None:
    blind = MM | {"input_shapes": None, "dur_ns": 20_000}
    row = first(compute(kernels(MM | {"dur_ns": 80_000}, blind)))
    assert row.known_share == pytest.approx(0.8)


def test_work_of_no_step_is_in_the_classes_and_in_no_step() -> None:
    found = compute(kernels(MM | {"dur_ns": 80_000}, MM | {"dur_ns": 80_000, "step": None}))
    assert [row.kernel_ns for row in found.rows(StepCompute)] == [80_000]
    assert found.rows(KindCost)[0].ns == 160_000


def test_a_capture_without_steps_is_one() -> None:
    rows = kernels(MM | {"step": None, "dur_ns": 80_000})
    found = computed([of(rows)], [split(step=None)])
    assert [(row.step, row.kernel_ns) for row in found.rows(StepCompute)] == [(None, 80_000)]


def test_fewer_blocks_than_cores_leave_cores_idle() -> None:
    # An H100 has 132 SMs: 33 blocks use a quarter of them; two rounds are not known to leave any idle.
    row = first(compute(kernels(MM | {"blocks": 33, "dur_ns": 8_000}, MM | {"blocks": 140, "dur_ns": 8_000})))
    assert row.losses.blocks_ns == 6_000


def ascend(*rows: dict[str, Any]) -> pl.DataFrame:
    base = {"unit": "cube", "call": None, "type": "MatMulV2", "blocks": 24}
    return kernels(*[base | row for row in rows])


def test_the_last_round_of_blocks_may_leave_cubes_idle() -> None:
    # 30 blocks on 20 cubes are two rounds of 20, of which 10 do nothing; vector cores are twice as many.
    rows = ascend({"blocks": 30, "dur_ns": 8_000}, {"blocks": 30, "unit": "vector", "dur_ns": 8_000})
    row = first(compute(rows, chip="Ascend910B3", vendor="ascend"))
    assert row.losses.blocks_ns == 2_000 + 2_000


def test_a_slow_clock_costs_what_the_rated_one_would_save() -> None:
    clock = pl.DataFrame({"ts_ns": [0, 10_000], "value": [1_200.0, 1_800.0]})
    rows = ascend({"dur_ns": 10_000}, {"dur_ns": 10_000}, {"start_ns": 5_000, "dur_ns": 10_000})
    row = first(compute(rows, chip="Ascend910B3", vendor="ascend", frequency=clock))
    # A third of the first, nothing of the second, a sixth of the third, which runs half at each.
    assert row.losses.frequency_ns == pytest.approx(3_333 + 1_667, abs=2)
    assert row.mhz == pytest.approx((1_200 + 1_800 + 1_500) / 3)


def test_each_loss_is_of_what_the_ones_before_leave() -> None:
    clock = pl.DataFrame({"ts_ns": [0], "value": [900.0]})
    pmu = pl.DataFrame({"kernel_id": [0, 0], "name": ["aic_mac_ratio", "aic_mte2_ratio"], "value": [0.2, 0.4]})
    rows = ascend({"dur_ns": 8_000, "blocks": 10})
    losses = first(compute(rows, chip="Ascend910B3", vendor="ascend", frequency=clock, pmu=pmu)).losses
    # Half for the clock (900 of 1800), half of the rest for the cubes (10 of 20), half of that for the pipe.
    assert (losses.frequency_ns, losses.blocks_ns, losses.pipe_ns) == (4_000, 2_000, 1_000)


def test_a_loss_that_nothing_tells_is_not_zero() -> None:
    losses = first(compute(kernels(MM))).losses
    assert (losses.frequency_ns, losses.blocks_ns, losses.pipe_ns) == (None, None, None)


def test_ai_cpu_takes_its_time_and_no_other_loss() -> None:
    clock = pl.DataFrame({"ts_ns": [0], "value": [900.0]})
    rows = ascend({"unit": "ai_cpu", "type": "NonZero", "dur_ns": 5_000, "blocks": 1}, {"dur_ns": 1_000})
    row = first(compute(rows, chip="Ascend910B3", vendor="ascend", frequency=clock))
    assert row.ai_cpu_ns == 5_000
    # 24 blocks on 20 cubes leave 16 of 40 places empty, of the half that the clock leaves.
    assert (row.losses.frequency_ns, row.losses.blocks_ns) == (500, 200)


def test_ai_cpu_is_not_measured_where_there_is_none() -> None:
    assert first(compute(kernels(MM))).ai_cpu_ns is None


def test_counters_tell_the_chip_where_its_name_does_not() -> None:
    # 16 blocks at 1800 MHz for 100 us; two thirds of the cubes were used.
    pmu = pl.DataFrame(
        {
            "kernel_id": [0, 0, 0],
            "name": ["aic_total_cycles", "aicore_time(us)", "cube_utilization(%)"],
            "value": [16 * 1_800 * 100.0, 100.0, 100 * 16 / 24],
        }
    )
    found = compute(ascend({"dur_ns": 100_000, "blocks": 16}), chip=None, vendor="ascend", pmu=pmu)
    (chip,) = found.rows(ChipUsed)
    assert (chip.chip, chip.told_by, chip.cores, chip.mhz) == ("Ascend910B2", "counters", 24, 1_800)


def test_a_rank_whose_clock_fell_has_the_chip_of_its_peers() -> None:
    def rank(number: int, mhz: float) -> RankCompute:
        pmu = pl.DataFrame(
            {"kernel_id": [0, 0], "name": ["aic_total_cycles", "aicore_time(us)"], "value": [24 * mhz * 100.0, 100.0]}
        )
        return of(ascend({"dur_ns": 100_000}), rank=number, chip="Ascend910B", vendor="ascend", pmu=pmu)

    found = computed([rank(0, 1_206), rank(1, 1_800), rank(2, 1_800)], [split(rank) for rank in range(3)])
    assert [(chip.ranks, chip.chip, chip.told_by) for chip in found.rows(ChipUsed)] == [
        ((0,), "Ascend910B2", "other ranks"),
        ((1, 2), "Ascend910B2", "counters"),
    ]


def test_a_rank_is_compared_with_the_median_rank_on_equal_operators() -> None:
    ranks = [of(kernels(MM | {"dur_ns": ns}), rank=rank) for rank, ns in enumerate((80_000, 82_000, 120_000))]
    found = computed(ranks, [split(rank) for rank in range(3)])
    assert [row.over_peers_ns for row in found.rows(StepCompute)] == [-2_000, 0, 38_000]


def test_of_two_ranks_each_is_held_against_the_other() -> None:
    ranks = [of(kernels(MM | {"dur_ns": ns}), rank=rank) for rank, ns in enumerate((80_000, 82_000))]
    assert [row.over_peers_ns for row in computed(ranks, [split(0), split(1)]).rows(StepCompute)] == [-2_000, 2_000]


def test_one_rank_alone_has_no_peers() -> None:
    assert [row.over_peers_ns for row in computed([of(kernels(MM), rank=0)], [split(0)]).rows(StepCompute)] == [None]


def test_casts_transpositions_and_formats_are_told_apart() -> None:
    copy = {"type": "aten::copy_", "input_shapes": "4,8;4,8;", "name": "direct_copy_kernel_cuda", "dur_ns": 100}
    rows = kernels(
        copy | {"input_dtypes": "float;c10::BFloat16;Scalar"},
        copy | {"input_dtypes": "float;float;Scalar", "dur_ns": 200},
        # A library turns a tensor around on the way to its convolution.
        {"type": "aten::cudnn_convolution", "name": "void cudnn::ops::nchwToNhwcKernel<float>(int)", "dur_ns": 400},
    )
    row = first(compute(rows))
    assert (row.cast_ns, row.transpose_ns, row.conversion_ns, row.losses.layout_ns) == (100, 200, 400, 700)


@pytest.mark.parametrize(("shapes", "kind", "cast_ns"), [("", "other", 0), ("1;", "cast", 100), ("4,8;", "cast", 100)])
def test_a_number_that_is_converted_is_no_cast_of_a_tensor(shapes: str, kind: str, cast_ns: int) -> None:
    row = {"type": "aten::_to_copy", "input_shapes": shapes, "input_dtypes": "double;Scalar", "dur_ns": 100}
    found = compute(kernels(row))
    assert (only(found).kind, first(found).cast_ns) == (kind, cast_ns)


def test_products_off_the_tile_are_counted() -> None:
    odd = {"type": "aten::mm", "input_shapes": "64,1021;1021,64", "input_dtypes": "c10::BFloat16;c10::BFloat16"}
    found = compute(kernels(MM | {"dur_ns": 80_000}, odd | {"dur_ns": 3_000}))
    assert first(found).unaligned_ns == 3_000
    assert {row.shapes: row.aligned for row in found.rows(OperatorCost)} == {
        "8944,1024;1024,2816": True,
        "64,1021;1021,64": False,
    }


def test_work_done_twice_counts_once_for_mfu() -> None:
    rows = kernels(MM | {"dur_ns": 80_000, "launch_ns": 10}, MM | {"dur_ns": 80_000, "launch_ns": 50})
    again = union_of_intervals(np.array([40], dtype=np.int64), np.array([60], dtype=np.int64))
    row = first(compute(rows, again=again))
    once = first(compute(kernels(MM | {"dur_ns": 80_000})))
    assert row.recompute_ns == 80_000
    assert row.mfu == once.mfu
    assert row.flops == 2 * (once.flops or 0)


def calls(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["kind", "name", "start_ns", "end_ns"], orient="row").with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")
    )


def test_stacks_tell_what_is_recomputed() -> None:
    found = recomputed(calls(("python", "torch/utils/checkpoint.py(1440): recompute_fn", 10, 30)))
    assert (found.starts.tolist(), found.ends.tolist()) == ([10], [30])


def test_the_backward_nodes_inside_a_checkpoint_are_no_recomputation() -> None:
    found = recomputed(
        calls(
            ("op", "autograd::engine::evaluate_function: CheckpointFunctionBackward", 0, 100),
            ("op", "CheckpointFunctionBackward", 5, 95),
            ("op", "aten::mm", 10, 20),
            ("op", "autograd::engine::evaluate_function: MmBackward0", 50, 90),
        )
    )
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == [(5, 50), (90, 95)]


def test_a_job_without_checkpoints_recomputes_nothing() -> None:
    assert len(recomputed(calls(("python", "train.py(1): checkpoint", 0, 9), ("op", "aten::mm", 1, 2)))) == 0


def test_mindspore_says_it_in_the_scope_of_a_kernel() -> None:
    rows = kernels(
        {"name": "Default/recompute_Default/network/MatMul-op1", "launch_ns": 7}, {"name": "Default/MatMul-op2"}
    )
    assert scoped(rows).starts.tolist() == [7]


def test_a_rank_without_kernels_has_no_compute() -> None:
    assert rank_compute(0, kernels(), vendor="nvidia", recorded=None, chip=None) is None
    assert compute_of([], []) == ()


def test_the_order_of_kernels_and_of_ranks_changes_nothing() -> None:
    add = {"type": "aten::add", "input_shapes": "64,64;64,64;", "input_dtypes": "float;float;Scalar"}
    rows = kernels(MM, add, MM | {"dur_ns": 3_000}, add | {"step": None})
    turned = rows.reverse()
    both = compute_of([of(rows), of(rows, rank=1)], [split(), split(1)])
    assert compute_of([of(turned, rank=1), of(turned)], [split(1), split()]) == both
