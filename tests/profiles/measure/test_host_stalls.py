"""Free time of the device that calls of the host leave."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.model.step_measures import HostStall
from hermes.profiles.measure.host.host_stalls import breaks, stalls
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw

CAUSES = {"C": "compilation", "R": "read back"}


NONE = np.empty(0, dtype=np.int64)


def drawn(text: str, *moments: int) -> dict[str, HostStall]:
    tables = draw(text)
    splits = step_splits(tables["step"], tables["kernel"], tables["comm_op"])
    begins = np.array(moments, dtype=np.int64)
    rows = stalls(splits, tables["host_op"], tables["kernel"], tables["comm_op"], CAUSES, begins)
    return {row.cause: row for row in rows}


def test_a_call_behind_which_the_device_works_leaves_nothing_free() -> None:
    rows = drawn("""
        rank0.step     [#########]
        rank0.host     .CCCC.....
        rank0.compute  ##########
    """)
    assert (rows["compilation"].host_ns, rows["compilation"].idle_ns) == (4_000, 0)


def test_free_time_runs_from_the_end_of_the_queue_to_the_next_task() -> None:
    rows = drawn("""
        rank0.step     [#########]
        rank0.host     .RRRR.....
        rank0.compute  ###....###
    """)
    assert (rows["read back"].idle_ns, rows["read back"].calls, rows["read back"].longest_at_ns) == (4_000, 1, 1_000)


def test_free_time_before_the_call_is_not_its_loss() -> None:
    rows = drawn("""
        rank0.step     [#########]
        rank0.host     .....RR...
        rank0.compute  ###.....##
    """)
    assert rows["read back"].idle_ns == 3_000


def test_free_time_before_the_first_step_does_not_count() -> None:
    rows = drawn("""
        rank0.step     ...[#####]
        rank0.host     RRR.......
        rank0.compute  .....#####
    """)
    assert rows["read back"].idle_ns == 2_000


def test_the_next_call_of_another_cause_takes_over() -> None:
    rows = drawn("""
        rank0.step     [#########]
        rank0.host     .RR.CC....
        rank0.compute  #.......##
    """)
    assert (rows["read back"].idle_ns, rows["compilation"].idle_ns) == (3_000, 4_000)


def test_what_the_host_does_next_is_not_the_loss_of_the_call_before() -> None:
    text = """
        rank0.step     [#########]
        rank0.host     .RR.......
        rank0.compute  #.......##
    """
    assert drawn(text)["read back"].idle_ns == 7_000
    assert drawn(text, 5_000)["read back"].idle_ns == 4_000


def test_fetching_saving_and_collecting_begin_something_else_and_a_line_of_a_log_does_not() -> None:
    calls = pl.DataFrame(
        {
            "name": ["enumerate(DataLoader)#_x.__next__", "torch/serialization.py(1): save",
                     "<built-in function print>", "aten::mm"],
            "kind": ["mark", "python", "python", "op"],
            "start_ns": [40, 30, 20, 10],
            "dur_ns": [5, 2_000_000, 5, 2_000_000],
        }
    )  # fmt: skip
    assert breaks(calls, pl.DataFrame({"start_ns": [35]})).tolist() == [30, 35, 40]


def test_what_one_thread_waits_for_while_another_compiles_is_compilation() -> None:
    rows = drawn("""
        rank0.step     [#########]
        rank0.host     .RRRRRR...
        rank0.host@2   ..CCC.....
        rank0.compute  #.......##
    """)
    assert (rows["compilation"].idle_ns, rows["read back"].idle_ns) == (6_000, 1_000)


def test_calls_inside_each_other_are_counted_once_in_time() -> None:
    tables = draw("""
        rank0.step     [#########]
        rank0.host     .RRRR.....
        rank0.compute  #........#
    """)
    inner = tables["host_op"].with_columns(pl.col("start_ns") + 1_000, pl.lit(2_000, dtype=pl.Int64).alias("dur_ns"))
    both = pl.concat([tables["host_op"], inner])
    splits = step_splits(tables["step"], tables["kernel"], tables["comm_op"])
    (row,) = stalls(splits, both, tables["kernel"], tables["comm_op"], CAUSES, NONE)
    assert (row.calls, row.host_ns, row.idle_ns) == (2, 4_000, 8_000)


def test_without_device_tasks_or_calls_there_is_nothing_to_say() -> None:
    assert drawn("rank0.step [###]\nrank0.host .RR.") == {}
    assert drawn("rank0.step [###]\nrank0.compute ####") == {}
