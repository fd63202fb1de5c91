"""Fills of new memory: those inside an allocating operator count, those beside one do not."""

from __future__ import annotations

import polars as pl

from hermes.model.tables import TABLES, empty
from hermes.profiles.measure.memory.new_memory_fills import NewMemoryFills, new_memory_fills
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw

NAMES = {"E": "aten::empty", "S": "aten::resize_", "F": "aten::fill_", "Z": "aten::zeros", "M": "aten::mm"}


def fills(text: str) -> list[NewMemoryFills]:
    tables = draw(text)
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    calls = tables["host_op"].with_columns(pl.col("name").replace(NAMES))
    return [*new_memory_fills(split, calls, tables["kernel"], empty(TABLES["flow"]))]


def test_fills_inside_an_allocation_count_with_the_kernels_that_they_launch() -> None:
    (found,) = fills("""
        rank0.step     [##############]
        rank0.host     MMMM..EEEE.SSSS.
        rank0.host     ......FFF...FFF.
        rank0.call     .X.....Y.....V..
        rank0.compute  ..XXX...YYY...VV
    """)
    assert (found.fills, found.host_ns, found.device_ns) == (2, 6_000, 5_000)


def test_a_fill_beside_an_allocation_is_asked_for_by_the_program() -> None:
    assert (
        fills("""
        rank0.step     [########]
        rank0.host     ZZZZZZZZ..
        rank0.host     EEFFF.....
        rank0.compute  ...FF.....
    """)
        == []
    )


def test_without_launches_the_time_of_the_device_is_not_known() -> None:
    (found,) = fills("""
        rank0.step     [########]
        rank0.host     EEEE......
        rank0.host     .FF.......
        rank0.compute  ..FF......
    """)
    assert (found.fills, found.host_ns, found.device_ns) == (1, 2_000, None)


def test_nothing_is_measured_where_nothing_is_filled() -> None:
    assert (
        fills("""
        rank0.step     [####]
        rank0.host     EEMM..
        rank0.compute  ..MM..
    """)
        == []
    )
