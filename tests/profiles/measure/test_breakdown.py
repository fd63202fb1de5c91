"""Drawn traces split into compute, exposed communication, exposed copies and free time."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.model.step_measures import AscendSplit, RankTotal, StepSplit, StreamBusy
from hermes.model.tables import TABLES, empty, schema_of
from hermes.profiles.measure.steps.breakdown import (
    ascend_splits,
    exposed_by_op,
    rank_total,
    reported_splits,
    spread,
    step_splits,
    stream_busy,
)
from hermes_testing import draw


def splits(text: str) -> tuple[StepSplit, ...]:
    tables = draw(text, scale_ns=1)
    return step_splits(tables["step"], tables["kernel"], tables["comm_op"])


def split(text: str) -> StepSplit:
    (one,) = splits(text)
    return one


def ascend(text: str) -> tuple[AscendSplit, ...]:
    tables = draw(text, scale_ns=1)
    return ascend_splits(tables["step"], tables["kernel"], tables["comm_op"])


def total(text: str) -> RankTotal | None:
    tables = draw(text, scale_ns=1)
    return rank_total(tables["kernel"], tables["comm_op"])


# What is exposed ---------------------------------------------------------------------------------------------------


def test_only_the_uncovered_tail_is_exposed() -> None:
    one = split("""
        rank0.compute  ####......
        rank0.comm     ..######..
    """)
    assert (one.comm_ns, one.exposed_comm_ns, one.overlapped_comm_ns) == (6, 4, 2)


def test_communication_behind_compute_costs_nothing() -> None:
    one = split("""
        rank0.compute  ########
        rank0.comm     ..####..
    """)
    assert (one.exposed_comm_ns, one.overlapped_comm_ns, one.compute_ns, one.free_ns) == (0, 4, 8, 0)


def test_a_copy_that_communication_hides_is_not_exposed() -> None:
    one = split("""
        rank0.compute  ##......
        rank0.comm     ..####..
        rank0.copy     .#####.#
    """)
    assert (one.copy_ns, one.copy_exposed_ns, one.exposed_comm_ns) == (6, 1, 4)


def test_time_in_which_nothing_runs_is_free() -> None:
    one = split("""
        rank0.compute  ##..##...
        rank0.copy     ...#.....
        rank0.comm     ........#
    """)
    assert (one.window_ns, one.free_ns, one.copy_exposed_ns) == (9, 3, 1)


def test_kernels_on_several_streams_at_once_count_once() -> None:
    one = split("""
        rank0.compute@1  ####....
        rank0.compute@5  ..####..
        rank0.comm       .......#
    """)
    assert (one.compute_ns, one.free_ns) == (6, 1)


def test_waits_and_marks_on_streams_are_no_work() -> None:
    one = split("""
        rank0.compute  ##....##
        rank0.wait     ..####..
    """)
    assert (one.compute_ns, one.comm_ns, one.free_ns) == (4, 0, 4)


def test_transfers_inside_an_operation_do_not_count_beside_it() -> None:
    # The rows of `kernel` that a collective leaves on streams end later than the operation does.
    tables = draw("rank0.compute  ##........\nrank0.comm     ..####....", scale_ns=1)
    longer = tables["kernel"].with_columns(dur_ns=pl.col("dur_ns") + 3 * (pl.col("component") == "comm"))
    (one,) = step_splits(tables["step"], longer, tables["comm_op"])
    assert (one.comm_ns, one.window_ns) == (4, 6)


def test_communication_kernels_count_where_no_operation_is_recorded() -> None:
    tables = draw("rank0.compute  ##....\nrank0.comm     ..####", scale_ns=1)
    (one,) = step_splits(tables["step"], tables["kernel"], empty(TABLES["comm_op"]))
    assert one.exposed_comm_ns == 4


def test_operations_of_a_capture_without_kernels_count_on_ascend() -> None:
    tables = draw("rank0.comm  ####..##", scale_ns=1)
    (one,) = step_splits(tables["step"], empty(TABLES["kernel"]), tables["comm_op"])
    assert (one.comm_ns, one.free_ns) == (6, 2)


def test_operations_of_a_processor_without_device_are_no_device_work() -> None:
    tables = draw("rank0.comm  ####..##", scale_ns=1)
    gloo = tables["comm_op"].with_columns(library=pl.lit("gloo"))
    assert step_splits(tables["step"], empty(TABLES["kernel"]), gloo) == ()
    assert rank_total(empty(TABLES["kernel"]), gloo) is None


# Windows -----------------------------------------------------------------------------------------------------------


def test_a_step_lasts_from_its_mark_or_the_step_before_to_the_end_of_its_last_task() -> None:
    first, second = splits("""
        rank0.step#7   [##########][####]
        rank0.compute  ...##..#......##..
    """)
    assert (first.window_kind, first.step, first.start_ns, first.window_ns, first.free_ns) == ("device", 7, 0, 8, 5)
    assert (second.step, second.start_ns, second.window_ns, second.compute_ns, second.free_ns) == (8, 8, 8, 2, 6)


def test_preparing_is_the_time_from_the_mark_to_the_first_task() -> None:
    one = split("""
        rank0.step     [##########]
        rank0.compute  ...##..#....
    """)
    assert (one.preparing_ns, one.host_ns) == (3, 12)


def test_preparing_is_part_of_free_and_begins_no_sooner_than_the_step() -> None:
    first, second = splits("""
        rank0.step     [###][####]
        rank0.compute  ..####..##.
    """)
    assert (first.preparing_ns, first.free_ns) == (2, 2)
    assert (second.preparing_ns, second.free_ns, second.host_ns) == (2, 2, 6)


def test_a_copy_is_work_of_the_device_as_any_other() -> None:
    one = split("""
        rank0.step     [##########]
        rank0.copy     .##.....###.
        rank0.compute  ...##..#....
    """)
    assert (one.start_ns, one.window_ns, one.copy_ns, one.preparing_ns) == (0, 11, 5, 1)


def test_a_step_holds_what_it_launched_though_it_runs_later() -> None:
    tables = draw(
        """
        rank0.step     [##][##]....
        rank0.compute  .A...BC.....
        """,
        scale_ns=1,
    )
    late = tables["kernel"].with_columns(step=pl.when(pl.col("name") == "B").then(0).otherwise("step"))
    first, second = step_splits(tables["step"], late, tables["comm_op"])
    assert (first.start_ns, first.window_ns, first.compute_ns) == (0, 6, 2)
    assert (second.start_ns, second.window_ns) == (6, 1)
    # A launch tells the step where one was recorded.
    launched = late.with_columns(launch_ns=pl.when(pl.col("name") == "C").then(3).otherwise("launch_ns"))
    (only,) = step_splits(tables["step"], launched, tables["comm_op"])[:1]
    assert (only.start_ns, only.window_ns) == (0, 7)


def test_work_of_an_earlier_step_that_still_runs_delays_the_first_step() -> None:
    one = split("""
        rank0.step#7   ..[######]..
        rank0.compute  ####....####
    """)
    assert (one.window_kind, one.start_ns, one.window_ns, one.compute_ns, one.free_ns) == ("device", 4, 8, 4, 4)


def test_a_device_of_tasks_that_name_their_steps_needs_no_marks() -> None:
    tables = draw("rank0.step#4  [##][##]\nrank0.compute  .##..##.", scale_ns=1)
    found = step_splits(tables["step"].clear(), tables["kernel"], tables["comm_op"])
    assert [(one.step, one.window_kind, one.start_ns, one.window_ns, one.host_ns) for one in found] == [
        (4, "device", 1, 2, None), (5, "device", 3, 4, None),
    ]  # fmt: skip


def test_a_capture_without_marks_is_taken_as_a_whole() -> None:
    one = split("""
        rank0.compute  ..##....
        rank0.copy     .......#
    """)
    assert (one.window_kind, one.step, one.start_ns, one.window_ns, one.host_ns, one.preparing_ns) == (
        "capture", None, 2, 6, None, 0,
    )  # fmt: skip


def test_steps_without_any_device_task_are_not_measured() -> None:
    one = split("rank0.step#3  [####]\nrank0.host     .##...")
    assert (one.window_kind, one.window_ns, one.host_ns) == ("host", 6, 6)
    measured = (
        one.compute_ns, one.comm_ns, one.exposed_comm_ns, one.overlapped_comm_ns, one.copy_ns, one.copy_exposed_ns,
        one.free_ns, one.preparing_ns,
    )  # fmt: skip
    assert measured == (None,) * 8


def test_a_mark_in_which_the_host_launched_no_task_is_no_step() -> None:
    found = splits("rank0.step  [##][##][##]\nrank0.compute  .##......##.")
    assert [(one.step, one.start_ns, one.window_ns, one.compute_ns) for one in found] == [(0, 0, 3, 2), (2, 3, 8, 2)]


def test_steps_come_in_order_of_their_numbers() -> None:
    found = splits("rank0.step#4  [##][##][##]\nrank0.compute  .##..##..##.")
    assert [(one.step, one.compute_ns) for one in found] == [(4, 2), (5, 2), (6, 2)]


def test_tasks_of_no_step_lengthen_none() -> None:
    found = splits("rank0.step  ...[##]...\nrank0.compute  ##..##..##")
    assert [(one.step, one.start_ns, one.compute_ns, one.window_ns) for one in found] == [(0, 3, 2, 3)]


def test_nothing_at_all_gives_no_splits() -> None:
    none = {name: empty(TABLES[name]) for name in ("step", "kernel", "comm_op")}
    assert step_splits(**none) == ()
    assert ascend_splits(**none) == ()
    assert rank_total(none["kernel"], none["comm_op"]) is None
    assert stream_busy(none["kernel"]) == ()
    assert exposed_by_op(none["kernel"], none["comm_op"]) == {}


# The identity ------------------------------------------------------------------------------------------------------

CELLS = st.text("#AB.", min_size=1, max_size=24)
LANES = st.lists(
    st.tuples(st.sampled_from(["compute@1", "compute@2", "comm", "comm:tp@8", "copy", "wait"]), CELLS), max_size=5
)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(2, 9)), max_size=3).map(
    lambda parts: "".join("." * gap + "[" + "#" * (length - 2) + "]" for gap, length in parts)
)


@given(LANES, STEPS)
def test_every_window_is_compute_exposed_parts_and_free(lanes: list[tuple[str, str]], steps: str) -> None:
    lines = [f"rank0.{lane}  {cells}" for lane, cells in lanes] + ([f"rank0.step  {steps}"] if steps else [])
    if not lines:
        return
    for one in splits("\n".join(lines)):
        if one.compute_ns is None:
            continue
        parts = (one.compute_ns, one.exposed_comm_ns, one.copy_exposed_ns, one.free_ns)
        assert all(part is not None and part >= 0 for part in parts)
        assert sum(part or 0 for part in parts) == one.window_ns
        assert (one.exposed_comm_ns or 0) + (one.overlapped_comm_ns or 0) == one.comm_ns


@given(LANES, STEPS)
def test_a_shift_in_time_changes_nothing_but_the_start(lanes: list[tuple[str, str]], steps: str) -> None:
    lines = [f"rank0.{lane}  {cells}" for lane, cells in lanes] + ([f"rank0.step  {steps}"] if steps else [])
    if not lines:
        return
    tables = draw("\n".join(lines), scale_ns=1)
    here = [tables[name] for name in ("step", "kernel", "comm_op")]
    far = 1_736_412_474_721_169_591
    there = [table.with_columns(pl.col("start_ns") + far) for table in here]
    moved = tuple(replace(one, start_ns=one.start_ns - far) for one in step_splits(*there))
    assert moved == step_splits(*here)


# Ascend's own definition -------------------------------------------------------------------------------------------


def test_by_ascends_definition_copies_are_free_time() -> None:
    (one,) = ascend("""
        rank0.step#5   [############]
        rank0.copy     .#.....##.....
        rank0.compute  ..####........
        rank0.comm     ....###..##...
    """)
    assert one == AscendSplit(
        rank=0, step=5, source="computed", compute_ns=4, exposed_comm_ns=3, overlapped_ns=2, comm_ns=5, free_ns=2,
        stage_ns=9,
        bubble_ns=0, preparing_ns=2,
    )  # fmt: skip


def test_receives_are_the_bubble_and_no_part_of_the_stage() -> None:
    tables = draw("rank0.step#5  [########]\nrank0.compute ##........\nrank0.comm  ..RR.SS...", scale_ns=1)
    ops = tables["comm_op"].with_columns(op=pl.col("name").replace_strict({"R": "recv", "S": "send"}))
    (one,) = ascend_splits(tables["step"], tables["kernel"], ops)
    assert (one.bubble_ns, one.stage_ns) == (2, 5)


def test_the_bubble_of_one_step_is_not_that_of_another() -> None:
    tables = draw("rank0.step#5  [##][##]\nrank0.comm  .RR..S..", scale_ns=1)
    ops = tables["comm_op"].with_columns(op=pl.col("name").replace_strict({"R": "recv", "S": "send"}))
    first, second = ascend_splits(tables["step"], tables["kernel"], ops)
    assert (first.bubble_ns, second.bubble_ns) == (2, 0)


def test_without_marks_ascends_definition_covers_the_run() -> None:
    (one,) = ascend("rank0.compute  ##..##")
    assert (one.step, one.free_ns, one.stage_ns, one.preparing_ns) == (None, 2, 6, None)


def test_a_capture_of_copies_alone_has_no_split_by_ascends_definition() -> None:
    assert ascend("rank0.step  [###]\nrank0.copy  .##..") == ()


def test_the_reported_rows_come_as_they_are() -> None:
    wanted = AscendSplit(
        rank=0, step=50, source="reported", compute_ns=1, exposed_comm_ns=2, overlapped_ns=3, comm_ns=4, free_ns=5,
        stage_ns=6, bubble_ns=7, preparing_ns=None,
    )  # fmt: skip
    schema = schema_of(TABLES["step_reported"])
    assert reported_splits(pl.DataFrame([{name: getattr(wanted, name) for name in schema}], schema=schema)) == (wanted,)


# Totals and streams ------------------------------------------------------------------------------------------------


def test_the_total_covers_every_row_of_the_rank() -> None:
    assert total("""
        rank0.step       ...[####]...
        rank0.compute@1  ##...#......
        rank0.compute@2  .##.........
        rank0.comm       ....###.....
        rank0.copy       ..........##
    """) == RankTotal(
        rank=0, tasks=5, span_ns=12, busy_ns=8, idle_ns=4, compute_ns=4, comm_ns=3, exposed_comm_ns=2, copy_ns=2,
        copy_exposed_ns=2, task_ns=10,
    )  # fmt: skip


def test_a_task_of_no_length_still_opens_the_span() -> None:
    tables = draw("rank0.compute  A..BB", scale_ns=1)
    kernel = tables["kernel"].with_columns(dur_ns=pl.when(pl.col("name") == "A").then(0).otherwise("dur_ns"))
    found = rank_total(kernel, tables["comm_op"])
    assert found is not None
    assert (found.span_ns, found.busy_ns, found.idle_ns, found.tasks) == (5, 2, 3, 2)


def test_a_stream_is_busy_for_the_union_of_its_rows_of_one_component() -> None:
    tables = draw(
        "rank0.compute@3  ##..##\nrank0.compute@3  .##...\nrank0.copy@3  ....##\nrank0.comm@1  #.....", scale_ns=1
    )
    assert stream_busy(tables["kernel"]) == (
        StreamBusy(rank=0, stream=1, component="comm", tasks=1, busy_ns=1),
        StreamBusy(rank=0, stream=3, component="compute", tasks=3, busy_ns=5),
        StreamBusy(rank=0, stream=3, component="copy", tasks=1, busy_ns=2),
    )


def test_rows_without_a_stream_come_last_and_marks_not_at_all() -> None:
    tables = draw("rank0.compute@3  A.B.C", scale_ns=1)
    rows = tables["kernel"].with_columns(
        stream=pl.when(pl.col("name") == "A").then(None).otherwise("stream"),
        component=pl.when(pl.col("name") == "C").then(pl.lit("other")).otherwise("component"),
    )
    assert [(row.stream, row.busy_ns) for row in stream_busy(rows)] == [(3, 1), (None, 1)]


def test_exposed_time_is_told_by_operation() -> None:
    tables = draw("rank0.compute  ###.....\nrank0.comm  ..GG.RR.", scale_ns=1)
    ops = tables["comm_op"].with_columns(op=pl.col("name").replace_strict({"G": "all_gather", "R": "all_reduce"}))
    assert exposed_by_op(tables["kernel"], ops) == {"all_gather": 1, "all_reduce": 2}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([5], (5, 5, 5)),
        ([4, 1, 9], (1, 4, 9)),
        ([1, 4], (1, 2, 4)),
        ([2**60, 2**60 + 2], (2**60, 2**60 + 1, 2**60 + 2)),
    ],
)
def test_the_spread_is_of_whole_nanoseconds(values: list[int], found: tuple[int, int, int]) -> None:
    assert spread(values) == found
