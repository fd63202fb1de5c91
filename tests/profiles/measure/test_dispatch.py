"""The host's part of a step, launches, the queue between host and device, and calls that wait."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from hermes.base.enclosing_calls import enclosing
from hermes.profiles.measure.host import dispatch
from hermes.profiles.measure.host.dispatch import StepRows
from hermes.profiles.measure.host.select_host_calls import spans
from hermes.profiles.measure.steps.breakdown import step_splits
from hermes_testing import draw

NAMES = {
    "D": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "I": "aten::_local_scalar_dense",
    "O": "aten::mm",
    "U": "train.py(88): step",
    "T": "torch/_tensor.py(20): item",
}
NO_SETTING = pl.DataFrame(schema={"name": pl.String, "value": pl.String})


def rows(text: str, stacks: dict[str, str] | None = None) -> StepRows:
    """The first step of rank 0; `stacks` gives letters of the host a stack."""
    tables = draw(text)
    split = step_splits(tables["step"], tables["kernel"], tables["comm_op"])[0]
    kernel = tables["kernel"].filter(pl.col("component").is_in(["compute", "comm", "copy"]))
    known = list(stacks or {})
    numbers = {letter: at for at, letter in enumerate(known)}
    host = tables["host_op"].with_columns(
        pl.col("name").replace_strict(numbers, default=None, return_dtype=pl.Int64).alias("stack_id"),
        pl.col("name").replace(NAMES),
    )
    return StepRows(
        split=split,
        start_ns=split.start_ns,
        end_ns=split.start_ns + split.window_ns,
        tasks=kernel.with_columns(pl.lit(value=True).alias("owned")),
        host_op=host,
        gc=tables["gc"],
        stack=pl.DataFrame(
            {"stack_id": list(range(len(known))), "frames": [(stacks or {})[letter] for letter in known]},
            schema={"stack_id": pl.Int64, "frames": pl.String},
        ),
        compute=spans(kernel.filter(pl.col("component") == "compute")),
        comm=spans(kernel.filter(pl.col("component") == "comm")),
        copy=spans(kernel.filter(pl.col("component") == "copy")),
        recorded=kernel.height > 0,
    )


def test_the_reasons_of_a_step_add_up_and_say_when_the_device_was_free() -> None:
    found = dispatch.step_host(
        rows("""
            rank0.step     [##########]
            rank0.host     DDDOOO......
            rank0.gc       ....G.......
            rank0.call     .....A......
            rank0.compute  ......AAAA..
        """)
    )
    assert found is not None
    assert sum(part.ns for part in found.parts) == found.host_ns == 10_000
    assert {part.reason: (part.ns // 1_000, (part.device_free_ns or 0) // 1_000) for part in found.parts} == {
        "garbage collection": (1, 1),
        "data loading": (3, 3),
        "launching": (1, 1),
        "operators": (1, 1),
        "outside any call": (4, 0),
    }
    assert found.queue_ns is None
    assert found.of("operators", "launching") == 2_000


def test_a_task_is_late_when_it_is_launched_after_the_device_ran_dry() -> None:
    found = dispatch.dispatch(
        rows("""
            rank0.step     [############]
            rank0.call     ABC.....D.....
            rank0.compute  .AABBCC..DD...
        """),
        None,
        NO_SETTING,
        "nvidia",
    )
    assert found is not None
    assert (found.tasks, found.linked, found.late, found.late_free_ns) == (4, 4, 1, 2_000)
    assert (found.interval_ns, found.kernel_ns, found.delay_ns) == (1_000, 2_000, 1_500)
    assert found.task_queue is None


@pytest.mark.parametrize(("value", "state"), [("0", "off"), ("1", "on"), ("2", "on")])
def test_the_setting_says_whether_there_is_a_task_queue(value: str, state: str) -> None:
    setting = pl.DataFrame({"name": ["TASK_QUEUE_ENABLE"], "value": [value]})
    found = dispatch.dispatch(
        rows("""
            rank0.step     [####]
            rank0.compute  .AA...
        """),
        None,
        setting,
        "ascend",
    )
    assert found is not None
    assert (found.task_queue, found.linked, found.interval_ns) == (state, 0, None)


def test_queue_depth_is_what_was_launched_and_has_not_begun() -> None:
    (found,) = dispatch.queue_depths(
        rows("""
            rank0.step     [########]
            rank0.call     ABC.......
            rank0.compute  ..AAABBBCC
        """)
    )
    # Depth by cell: 1 2 2 2 2 1 1 1 0 0.
    assert (found.mean, found.median, found.most, found.empty, found.full) == (1.2, 1, 2, 0.2, 0.0)
    assert len(found.curve) == 50
    assert sum(found.curve) / 50 == pytest.approx(found.mean)
    assert found.curve[:2] == (1.0, 1.0)
    assert found.curve[-1] == 0.0


def test_tasks_without_a_launch_are_not_in_the_queue() -> None:
    assert not list(
        dispatch.queue_depths(
            rows("""
                rank0.step     [####]
                rank0.compute  .AA...
            """)
        )
    )


def test_a_waiting_call_is_told_with_its_line_and_what_the_device_did() -> None:
    (found,) = dispatch.sync_calls(
        rows(
            """
            rank0.step     [##############]
            rank0.host     IIIIIIIIII......
            rank0.sync     .SSSSSSSS.......
            rank0.compute  AAA.........BB..
            rank0.comm     ..CCC...........
            rank0.copy     ......E.........
            """,
            {"I": "torch/_tensor.py(20): item\n/home/user/train.py(485): log\n/home/user/train.py(1): main"},
        )
    )
    assert (found.operator, found.names, found.calls) == ("aten::_local_scalar_dense", ("deviceSynchronize",), 1)
    assert found.source == "/home/user/train.py(485): log"
    assert (found.wait_ns, found.compute_ns, found.comm_ns, found.copy_ns, found.idle_ns) == (
        8_000, 2_000, 2_000, 1_000, 3_000,
    )  # fmt: skip
    assert found.refill_ns == 3_000


def test_the_line_comes_from_a_python_frame_where_there_is_no_stack() -> None:
    (found,) = dispatch.sync_calls(
        rows("""
            rank0.step     [##############]
            rank0.python   UUUUUUUUUUUU....
            rank0.host@100 .IIIII..........
            rank0.sync     ..SSS...........
            rank0.compute  AAAAA...........
        """)
    )
    assert found.source == "train.py(88): step"


def test_a_line_of_hermes_is_not_the_users_where_hermes_stands_before_a_function() -> None:
    (found,) = dispatch.sync_calls(
        rows(
            """
            rank0.step     [##############]
            rank0.host     IIIIIIIIII......
            rank0.sync     .SSSSSSSS.......
            rank0.compute  AAA.........BB..
            """,
            {"I": "/home/me/src/hermes/inside/error_guard.py(72): called\n/home/user/train.py(485): log"},
        )
    )
    assert found.source == "/home/user/train.py(485): log"


def test_calls_of_one_line_are_one_row_and_the_longest_wait_comes_first() -> None:
    first, second = dispatch.sync_calls(
        rows(
            """
            rank0.step     [##############]
            rank0.host     II.JJJJ.II......
            rank0.sync     S..SSSS.S.......
            rank0.compute  AAAAAAAAAAAA....
            """,
            {"I": "a.py(1): f", "J": "a.py(2): g"},
        )
    )
    assert (first.source, first.calls, first.wait_ns, first.longest_ns) == ("a.py(2): g", 1, 4_000, 4_000)
    assert (second.source, second.calls, second.wait_ns) == ("a.py(1): f", 2, 2_000)


def test_reading_back_is_a_wait_where_no_runtime_call_is_recorded_and_only_there() -> None:
    silent = """
        rank0.step     [######]
        rank0.host     .IIII...
        rank0.compute  AAAAAA..
    """
    (found,) = dispatch.sync_calls(rows(silent))
    assert (found.names, found.operator, found.wait_ns) == (("aten::_local_scalar_dense",), "", 4_000)
    assert dispatch.sync_calls(rows(silent + "    rank0.call     A.......")) == ()


def test_the_innermost_open_call_is_found_behind_siblings_and_on_its_own_thread() -> None:
    outer = draw("""
        rank0.host@1  AABBBBBB..
        rank0.python@1 ..........
        rank0.host@2  ....CCCC..
    """)["host_op"]
    inner = pl.concat(
        [
            outer,
            outer.head(1).with_columns(
                pl.lit("X").alias("name"), start_ns=pl.lit(3_000, pl.Int64), dur_ns=pl.lit(1_000, pl.Int64)
            ),
        ]
    )
    moments = pl.DataFrame({"pid": [1, 1, 1, 1], "tid": [1, 1, 2, 1], "start_ns": [3_500, 5_000, 5_000, 9_000]})
    names = inner["name"].to_list()
    assert [None if at is None else names[at] for at in enclosing(inner, moments).to_list()] == ["X", "B", "C", None]


def test_the_device_is_free_behind_a_call_only_when_it_has_worked_off_its_queue() -> None:
    (found,) = dispatch.sync_calls(
        rows("""
            rank0.step     [########]
            rank0.sync     .SS.......
            rank0.compute  AAAA..BB..
        """)
    )
    assert (found.wait_ns, found.compute_ns, found.refill_ns) == (2_000, 2_000, 2_000)


def test_tasks_of_two_streams_that_begin_at_once_saw_one_gap() -> None:
    found = dispatch.dispatch(
        rows("""
            rank0.step      [########]
            rank0.call      A...BC....
            rank0.compute   .AA..BB...
            rank0.compute@9 .....CC...
        """),
        None,
        NO_SETTING,
        "nvidia",
    )
    assert found is not None
    assert (found.late, found.late_free_ns) == (1, 2_000)


def test_a_copy_of_pageable_memory_that_took_long_waited_and_a_short_one_did_not() -> None:
    drawn = rows("""
        rank0.step     [##########]
        rank0.call     AAAAAA..B...
        rank0.copy     .....A..B...
        rank0.compute  ..........CC
    """)
    calls = drawn.host_op.with_columns(pl.col("dur_ns") * 100)
    staged = replace(drawn, host_op=calls, pageable=frozenset(calls["start_ns"].to_list()))
    (found,) = dispatch.sync_calls(staged)
    assert found.longest_ns == 600_000
    assert dispatch.sync_calls(replace(drawn, pageable=staged.pageable)) == ()


def test_tasks_of_a_captured_graph_are_counted() -> None:
    drawn = rows("""
        rank0.step     [##########]
        rank0.call     A...........
        rank0.compute  ..AA........
    """)
    graph = replace(drawn, host_op=drawn.host_op.with_columns(pl.lit("hipGraphLaunch").alias("name")))
    whole, plain = dispatch.dispatch(graph, None, NO_SETTING, "amd"), dispatch.dispatch(drawn, None, NO_SETTING, "amd")
    assert whole is not None
    assert plain is not None
    assert (whole.graphed, plain.graphed) == (1, 0)
