"""Peaks, growth, recomputation and holders of device memory."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.memory import memory_peaks
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw

MB = 1 << 20
STEPS = pl.DataFrame({"step": [5, 6, 7, 8], "start_ns": [0, 100, 200, 300], "dur_ns": [100, 100, 100, 100]})


def curve(*samples: tuple[int, int | None, int | None], component: str = "PTA") -> pl.DataFrame:
    rows = [
        {"rank": 0, "component": component, "ts_ns": ts, "allocated_bytes": allocated, "reserved_bytes": reserved,
         "device_id": 0}
        for ts, allocated, reserved in samples
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=empty(TABLES["memory"]).schema)


def test_the_peak_has_its_step_and_fragmentation_is_of_the_highest_reservation() -> None:
    (found,) = memory_peaks.peaks(0, curve((10, 4 * MB, 8 * MB), (150, 7 * MB, 8 * MB), (250, 3 * MB, 6 * MB)), STEPS)
    assert (found.allocated_bytes, found.allocated_at_ns, found.allocated_step) == (7 * MB, 150, 6)
    assert (found.reserved_bytes, found.fragmentation, found.samples) == (8 * MB, 0.5, 3)


def test_a_component_that_holds_nothing_is_left_out_and_a_total_has_no_fragmentation() -> None:
    both = pl.concat([curve((1, None, 0), component="ROCE"), curve((1, None, 9 * MB), component="APP")])
    (found,) = memory_peaks.peaks(0, both, STEPS)
    assert (found.component, found.allocated_bytes, found.fragmentation, found.allocated_step) == (
        "APP", None, None, None,
    )  # fmt: skip


def test_growth_is_the_slope_of_what_was_held_where_steps_begin() -> None:
    leak = curve(*((at, 10 * MB + at // 100 * 3 * MB, 90 * MB) for at in range(0, 400, 10)))
    (found,) = memory_peaks.growth(0, leak, STEPS)
    assert found.bytes_per_step == pytest.approx(3 * MB)
    assert (found.r2, found.steps) == (pytest.approx(1.0), 4)
    steady = curve(*((at, 10 * MB + at % 100 * MB, 200 * MB) for at in range(0, 400, 10)))
    (even,) = memory_peaks.growth(0, steady, STEPS)
    assert (even.bytes_per_step, even.r2) == (0.0, 1.0)


def test_growth_is_not_measured_from_two_steps() -> None:
    assert list(memory_peaks.growth(0, curve((0, 1, 2), (150, 3, 4)), STEPS.head(2))) == []


def _autograd(text: str, again: str) -> tuple[pl.DataFrame, pl.DataFrame, object]:
    tables = draw(text)
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    letter = pl.col("name")
    calls = tables["host_op"].with_columns(
        pl.when(letter.is_in(list("F" + again))).then(pl.lit(7, pl.Int64)).alias("sequence"),
        pl.lit(None, dtype=pl.Int64).alias("forward_tid"),
        letter.replace({"B": "autograd::engine::evaluate_function: MmBackward0"}),
    )
    return calls, tables["kernel"], split


def test_forward_work_inside_the_backward_pass_is_recomputation() -> None:
    calls, kernel, split = _autograd(
        """
        rank0.step     [##############]
        rank0.host     FFF.............
        rank0.host@9   ....BBBBBBBBBB..
        rank0.host@9   .....RRRR.......
        rank0.call     .X..............
        rank0.call@9   ......Y...Z.....
        rank0.compute  ..XX...YYY.ZZ...
        """,
        "R",
    )
    found = memory_peaks.recompute(split, calls, kernel, empty(TABLES["flow"]))  # type: ignore[arg-type]
    assert found is not None
    assert (found.ops, found.host_ns, found.device_ns, found.compute_ns) == (1, 4_000, 3_000, 7_000)


def test_a_backward_pass_that_computes_nothing_again_has_none() -> None:
    calls, kernel, split = _autograd(
        """
        rank0.step     [########]
        rank0.host     FFF.......
        rank0.host@9   ....BBBB..
        rank0.call     .X........
        rank0.compute  ..XX......
        """,
        "",
    )
    found = memory_peaks.recompute(split, calls, kernel, empty(TABLES["flow"]))  # type: ignore[arg-type]
    assert found is not None
    assert (found.ops, found.host_ns, found.device_ns) == (0, 0, 0)


def test_recomputation_is_not_measured_without_a_backward_pass() -> None:
    calls, kernel, split = _autograd(
        """
        rank0.step     [####]
        rank0.host     FF....
        rank0.compute  ..XX..
        """,
        "",
    )
    assert memory_peaks.recompute(split, calls, kernel, empty(TABLES["flow"])) is None  # type: ignore[arg-type]


BLOCKS = pl.DataFrame(
    {
        "name": ["aten::mm", "aten::mm", "aten::add", "aten::mm", "gone"],
        "bytes": [100, 50, 25, 10, 1_000],
        "alloc_ns": [10, 30, 32, 60, 1],
        "release_ns": [70, None, 65, None, 2],
    }
)
MODULES = pl.DataFrame(
    {
        "name": ["nn.Module: Net_0", "nn.Module: Linear_0", "nn.Module: Linear_1"],
        "pid": [1, 1, 1], "tid": [1, 1, 1], "start_ns": [5, 8, 28], "dur_ns": [40, 10, 3],
    }
)  # fmt: skip
NODES = pl.DataFrame(
    {"pid": [1, 1], "tid": [1, 2], "start_ns": [9, 58], "dur_ns": [4, 6], "sequence": [3, 3], "forward_tid": [None, 1]}
)


def test_holders_are_told_when_most_is_held_by_the_module_of_the_call_or_of_its_forward_operator() -> None:
    # "gone" holds more than all others for a nanosecond: then nothing else is there.
    held = memory_peaks.holders(0, BLOCKS, MODULES, lambda first, last: NODES)
    assert [(row.operator, row.bytes) for row in held] == [("gone", 1_000)]
    held = memory_peaks.holders(0, BLOCKS.head(4), MODULES, lambda first, last: NODES)
    assert [(row.module, row.operator, row.blocks, row.bytes) for row in held] == [
        ("Linear_0", "aten::mm", 1, 100),
        ("Linear_1", "aten::mm", 1, 50),
        ("Net_0", "aten::add", 1, 25),
        ("Linear_0 (backward)", "aten::mm", 1, 10),
    ]
    assert sum(row.share for row in held) == pytest.approx(1.0)


def test_without_modules_holders_are_operators() -> None:
    held = memory_peaks.holders(0, BLOCKS.head(4), MODULES.clear(), lambda first, last: NODES)
    assert [(row.module, row.operator, row.bytes) for row in held] == [(None, "aten::mm", 160), (None, "aten::add", 25)]
    assert memory_peaks.holders(0, BLOCKS.clear(), MODULES, lambda first, last: NODES) == ()
