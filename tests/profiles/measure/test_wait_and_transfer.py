"""Operations split at the arrival of their last member."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn, groups_of, split, together

from hermes.base.intervals import union_of_intervals
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.communication.wait_and_transfer import with_compute, with_tasks

LATE = """
    rank0.comm  ##########
    rank1.comm  ....######
"""
NO_TASK = pl.DataFrame(schema=schema_of(TABLES["comm_task"]))


def test_a_rank_waits_until_the_last_member_arrives_and_what_follows_is_transfer() -> None:
    rows = split(LATE)
    assert rows["wait_ns"].to_list() == [4_000, 0]
    assert rows["time_ns"].to_list() == [6_000, 6_000]
    assert rows["arrival_ns"].to_list() == [4_000, 4_000]


def test_a_lead_within_the_error_of_the_clocks_is_no_wait() -> None:
    made, _ = together(drawn(LATE), groups_of(LATE), clocks={0: (0, 0), 1: (0, 4_000)})
    assert made.rows.sort("rank")["wait_ns"].to_list() == [0, 0]
    # How long the operation took is no claim on who was late.
    assert made.rows.sort("rank")["time_ns"].to_list() == [6_000, 6_000]


def test_offsets_of_clocks_change_nothing_once_they_are_known() -> None:
    here, _ = together(drawn(LATE), groups_of(LATE))
    ranks = drawn(LATE)
    ranks[1] = ranks[1].with_columns(pl.col("start_ns") + 777_000_000)
    there, _ = together(ranks, groups_of(LATE), clocks={0: (0, 0), 1: (-777_000_000, 0)})
    same = ["rank", "comm_id", "wait_ns", "time_ns", "split"]
    assert here.rows.select(same).sort("rank").equals(there.rows.select(same).sort("rank"))
    assert there.rows.sort("rank")["arrival_ns"].to_list() == [4_000, 777_004_000]


def test_nothing_is_told_of_an_operation_that_may_wait_for_a_rank_nobody_saw() -> None:
    made, _ = together(drawn(LATE), groups_of(LATE, size=3))
    assert made.rows["split"].to_list() == [False, False]
    assert made.rows["wait_ns"].null_count() == 2
    assert made.instances["complete"].to_list() == [False]


def test_a_wait_that_names_a_missing_rank_tells_when_it_came() -> None:
    late = {0: {0: Arrival(at_ns=7_000, rank=2, comm_id=None)}, 1: {0: Arrival(at_ns=7_000, rank=2, comm_id=None)}}
    made, _ = together(drawn(LATE), groups_of(LATE, size=3), peers=late, recorded={0: [0], 1: [0]})
    assert made.rows.sort("rank")["wait_ns"].to_list() == [7_000, 3_000]
    assert made.instances.select("last", "last_ns", "second_ns").row(0) == (2, 7_000, 4_000)


def test_rows_that_begin_after_the_others_ended_are_not_one_operation() -> None:
    made, _ = together(
        *_pair("""
        rank0.comm  ###......
        rank1.comm  .....####
    """)
    )
    assert made.instances["matched"].to_list() == [False]
    assert made.rows["split"].to_list() == [False, False]


def test_a_broadcast_takes_what_its_quickest_member_needs() -> None:
    rows = split(LATE, op="broadcast")
    assert rows["wait_ns"].to_list() == [4_000, 0]


def test_a_send_and_its_receive_are_a_collective_of_two() -> None:
    ranks, group = _pair("""
        rank0.comm:pp  ..####
        rank1.comm:pp  ######
    """)
    ranks[0] = ranks[0].with_columns(op=pl.lit("send"))
    ranks[1] = ranks[1].with_columns(op=pl.lit("recv"))
    made, _ = together(ranks, group)
    assert made.rows.sort("rank")["wait_ns"].to_list() == [0, 2_000]
    batched = {rank: own.with_columns(op=pl.lit("send_recv")) for rank, own in ranks.items()}
    again, _ = together(batched, group)
    assert again.rows.sort("rank")["wait_ns"].to_list() == [0, 2_000]


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.integers(1, 50), st.integers(0, 3))
def test_wait_and_time_add_up_to_the_operation_whoever_comes_last(
    arrivals: list[int], lasts: int, stagger: int
) -> None:
    end = max(arrivals) + lasts
    rows = {
        rank: pl.DataFrame(
            {
                "comm_id": [0], "op": ["all_reduce"], "group": ["g"], "name": ["x"], "library": ["nccl"], "step": [0],
                "peer": pl.Series([None], dtype=pl.Int64), "bytes": [8], "start_ns": [start],
                "dur_ns": [end + stagger * rank - start], "sequence": [0],
            }
        )
        for rank, start in enumerate(arrivals)
    }  # fmt: skip
    members = [{"rank": rank, "group": "g", "member": member} for rank in rows for member in range(len(rows))]
    operations, _ = together(rows, pl.DataFrame(members, schema=schema_of(TABLES["group"])))
    made = operations.rows.sort("rank")
    assert (made["wait_ns"] + made["time_ns"]).to_list() == made["dur_ns"].to_list()
    assert made["wait_ns"].to_list() == [max(arrivals) - start for start in arrivals]


def test_time_after_the_last_arrival_in_which_no_task_runs_is_idle() -> None:
    tasks = _tasks((0, 0, 5_000), (0, 6_000, 2_000), (0, 7_000, 2_000), (9, 0, 9_000))
    rows = split(LATE).filter(pl.col("rank") == 0)
    # It waits for 4 us; of the 6 us after that, tasks run in [4, 5) and [6, 9).
    assert with_tasks(rows, tasks)["idle_ns"].to_list() == [2_000]


def test_idle_time_is_not_measured_where_no_task_is_recorded() -> None:
    assert with_tasks(split(LATE), NO_TASK)["idle_ns"].to_list() == [None, None]


def test_tasks_of_operations_that_run_at_once_do_not_mix() -> None:
    rows = split("""
        rank0.comm:a@2  ####
        rank0.comm:b@3  ####
        rank1.comm:a@2  ####
        rank1.comm:b@3  ####
    """).filter(pl.col("rank") == 0)
    idle = with_tasks(rows, _tasks((0, 0, 4_000), (1, 0, 1_000)))
    assert idle.sort("comm_id")["idle_ns"].to_list() == [0, 3_000]


def test_what_is_computed_while_waiting_hides_no_transfer() -> None:
    compute = union_of_intervals(np.array([0, 8_000]), np.array([5_000, 20_000]))
    rows = with_compute(split(LATE).filter(pl.col("rank") == 0), compute)
    assert rows["hidden_ns"].to_list() == [1_000 + 2_000]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("hcom_allGather__1_0_1", 400), ("hcom_reduceScatter__1_0_1", 400), ("hcom_alltoall__1_0_1", 400),
        ("hcom_alltoallv__1_0_1", 100), ("hcom_allReduce__1_0_1", 100),
    ],
)  # fmt: skip
def test_sizes_of_hccl_that_count_one_part_are_brought_to_the_whole(name: str, whole: int) -> None:
    made, _ = together(drawn(LATE, name=name, library="hccl", bytes=100), groups_of(LATE, size=4))
    assert made.rows["bytes"].to_list() == [whole, whole]


def _pair(text: str) -> tuple[dict[int, pl.DataFrame], pl.DataFrame]:
    return drawn(text), groups_of(text)


def _tasks(*rows: tuple[int, int, int]) -> pl.DataFrame:
    made = [{"rank": 0, "comm_id": c, "task": "memcpy", "start_ns": s, "dur_ns": d} for c, s, d in rows]
    return pl.DataFrame(made, schema=schema_of(TABLES["comm_task"]))
