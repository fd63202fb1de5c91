"""Stages of a pipeline, balance over ranks, and the matrix that holds any number of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn, groups_of, together
from tests.profiles.measure.comm_rows import of_rank as rows_of_rank
from tests.profiles.rules.rows import step_compute

from hermes.base.intervals import EMPTY, union_of_intervals
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.measure.communication.wait_and_transfer import with_compute
from hermes.profiles.measure.structure.balance import balances, expert_tokens_of, operations_of, tokens_of
from hermes.profiles.measure.structure.expert_operators import MOST_CALLS, expert_calls_of, expert_operators
from hermes.profiles.measure.structure.matrix import rank_matrix
from hermes.profiles.measure.structure.pipeline import pipeline, stage_wait, stages_of

PASSED = """
    rank0.step     [##########]
    rank1.step     [##########]
    rank0.comm:pp  ....##......
    rank1.comm:pp  .#####......
"""


def passed(**columns: object) -> dict[int, pl.DataFrame]:
    """Stage 0 sends to stage 1, which waits for it from cell 1 to cell 4."""
    ranks = drawn(PASSED, **columns)
    if "op" not in columns:
        ranks = {0: ranks[0].with_columns(op=pl.lit("send")), 1: ranks[1].with_columns(op=pl.lit("recv"))}
    return ranks


def placed(rank: int, own: pl.DataFrame, stages: dict[int, int]) -> pl.DataFrame:
    """The operations of a rank with what `exchange` is given: whether the last to arrive is in another stage."""
    elsewhere = [other for other, stage in stages.items() if stage != stages[rank]]
    return own.with_columns(pl.col("last").is_in(elsewhere).fill_null(value=False).alias("elsewhere"))


def of_rank(rank: int, **columns: object) -> pl.DataFrame:
    made, _ = together(passed(**columns), groups_of(PASSED))
    return with_compute(rows_of_rank(made, rank), EMPTY)


def test_waiting_for_the_stage_before_is_the_bubble_unless_something_is_computed() -> None:
    wait = stage_wait(1, placed(1, of_rank(1), {0: 0, 1: 1}), EMPTY, 1)
    assert wait is not None
    assert (wait.bubble_ns, wait.transfer_ns, wait.receives, wait.estimated) == (3_000, 2_000, 1, False)
    busy = union_of_intervals(np.array([0]), np.array([2_000]))
    beside = stage_wait(1, placed(1, of_rank(1), {0: 0, 1: 1}), busy, 1)
    assert beside is not None
    assert beside.bubble_ns == 2_000


def test_a_batch_of_sends_and_receives_waits_just_so() -> None:
    wait = stage_wait(1, placed(1, of_rank(1, op="send_recv"), {0: 0, 1: 1}), EMPTY, 1)
    assert wait is not None
    assert (wait.bubble_ns, wait.transfer_ns, wait.estimated) == (3_000, 2_000, False)


def test_where_the_other_side_is_not_known_what_exceeds_the_quickest_is_waiting() -> None:
    text = """
        rank1.comm:pp  .#####...##..
    """
    made, _ = together(drawn(text, op="send_recv", bytes=8), groups_of(text, size=4))
    wait = stage_wait(1, placed(1, made.rows, {0: 0, 1: 1}), EMPTY, 1)
    assert wait is not None
    assert (wait.bubble_ns, wait.transfer_ns, wait.estimated) == (3_000, None, True)


def test_waiting_at_the_end_for_a_rank_of_another_stage_is_bubble_too() -> None:
    text = """
        rank0.step     [##############]
        rank1.step     [##############]
        rank2.step     [##############]
        rank0.comm:pp  ##..............
        rank2.comm:pp  ##..............
        rank0.comm:dp  ....####........
        rank1.comm:dp  .....###........
        rank0.comm:w@7  .........####...
        rank1.comm:w@7  ..........###...
        rank2.comm:w@7  ............#...
    """
    ranks = drawn(text)
    for rank, way in ((0, "send"), (2, "recv")):
        op = pl.when(pl.col("group") == "pp").then(pl.lit(way)).otherwise("op")
        ranks[rank] = ranks[rank].with_columns(op.alias("op"))
    made, _ = together(ranks, groups_of(text))
    wait = stage_wait(0, placed(0, rows_of_rank(made, 0), {0: 0, 1: 0, 2: 1}), EMPTY, 1)
    assert wait is not None
    # Three cells for rank 2 of the other stage; the one for rank 1 of its own stage is none.
    assert wait.bubble_ns == 3_000


def test_a_rank_without_neighbours_has_no_bubble() -> None:
    made, _ = together(drawn(PASSED), groups_of(PASSED))
    assert stage_wait(0, placed(0, rows_of_rank(made, 0), {0: 0, 1: 1}), EMPTY, 1) is None


def test_stages_come_from_coordinates_then_from_groups_then_from_who_sends_first() -> None:
    made, _ = together(passed(), groups_of(PASSED))
    assert stages_of({0: 1, 1: 0}, [], made.rows) == ({0: 1, 1: 0}, "coordinates")
    assert stages_of({0: None, 1: None}, [(1, 0)], made.rows) == ({1: 0, 0: 1}, "group")
    assert stages_of({0: 0, 1: 0}, [], made.rows) == ({0: 0, 1: 1}, "sends and receives")
    assert stages_of({}, [], made.rows.clear()) is None


def test_stages_of_groups_of_neighbours_go_on_from_group_to_group() -> None:
    rows = pl.DataFrame(schema={"op": pl.String, "peer": pl.Int64})
    neighbours = [(4, 6), (0, 2), (2, 4), (1, 3), (3, 5), (5, 7)]
    stages = {0: 0, 2: 1, 4: 2, 6: 3, 1: 0, 3: 1, 5: 2, 7: 3}
    assert stages_of({}, neighbours, rows) == (stages, "group")
    # The group of the first and the last stage is no stage of its own.
    assert stages_of({}, [*neighbours, (0, 6), (1, 7)], rows) == (stages, "group")
    # In a ring nobody is first: then who sends first tells.
    assert stages_of({}, [(0, 1), (1, 2), (2, 0)], rows.with_columns(rank=1, comm_id=1, start_ns=1).clear()) is None


def test_a_chain_of_first_sends_reaches_stages_that_were_not_collected() -> None:
    rows = pl.DataFrame(
        [
            {"rank": 0, "comm_id": 0, "op": "send", "peer": 4, "start_ns": 0},
            {"rank": 4, "comm_id": 0, "op": "recv", "peer": 0, "start_ns": 0},
            {"rank": 4, "comm_id": 1, "op": "send", "peer": 8, "start_ns": 5},
            {"rank": 4, "comm_id": 2, "op": "send", "peer": 0, "start_ns": 9},
        ]
    )
    assert stages_of({}, [], rows) == ({0: 0, 4: 1, 8: 2}, "sends and receives")


def split_of(rank: int, step: int | None, compute: int, window: int = 10_000) -> StepSplit:
    return StepSplit(
        rank=rank, step=step, window_kind="device", start_ns=0, window_ns=window, compute_ns=compute, comm_ns=0,
        exposed_comm_ns=0, overlapped_comm_ns=0, copy_ns=0, copy_exposed_ns=0, free_ns=window - compute,
        preparing_ns=None, host_ns=None,
    )  # fmt: skip


def test_a_pipeline_says_what_its_schedule_costs_and_how_uneven_its_stages_are() -> None:
    waits = {}
    for rank in (0, 1):
        wait = stage_wait(rank, placed(rank, of_rank(rank), {0: 0, 1: 1}), EMPTY, 1)
        assert wait is not None
        waits[rank] = wait
    line = pipeline({0: 0, 1: 1}, "group", waits, JobSteps([split_of(0, 5, 6_000), split_of(1, 5, 2_000)]))
    assert line is not None
    assert (line.micro_batches, line.structural_share) == (1, 0.5)
    assert line.imbalance == pytest.approx(0.5)
    assert line.bubble_share == pytest.approx((0 + 0.3) / 2)
    assert [(stage.stage, stage.compute_ns, stage.bubble_ns) for stage in line.stages] == [
        (0, 6_000, 0),
        (1, 2_000, 3_000),
    ]


def test_one_stage_is_no_pipeline() -> None:
    assert pipeline({0: 0, 1: 0}, "coordinates", {}, JobSteps([])) is None


def calls(*rows: tuple[int | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"step": pl.Int64, "shapes": pl.String}, orient="row")


def test_tokens_are_the_indices_of_the_largest_lookup() -> None:
    rows = calls(
        (1, "32000,2048;4,1024"), (1, "32000,2048;4,1024"), (2, "32000,2048;8192"), (1, "4096,2048;1024"),
        (None, "32000,2048;7"), (2, None), (2, "32000"), (2, "x,y;z"),
    )  # fmt: skip
    assert tokens_of(rows).rows() == [(1, 8_192), (2, 8_192)]


def test_expert_tokens_are_the_rows_of_grouped_multiplications() -> None:
    assert expert_tokens_of(calls((1, "300,64;8,64,64"), (1, "500,64;8,64,64"), (1, "bad"))).rows() == [(1, 400.0)]


def loads(*per_rank: list[int]) -> dict[int, pl.DataFrame]:
    return {rank: pl.DataFrame({"step": list(range(len(own))), "tokens": own}) for rank, own in enumerate(per_rank)}


def test_imbalance_is_the_median_over_steps_of_the_largest_over_the_mean() -> None:
    splits = [
        split_of(rank, step, 10 * tokens)
        for rank, own in enumerate(([100, 100, 10], [300, 100, 10]))
        for step, tokens in enumerate(own)
    ]
    (row,) = balances("tokens", "shapes", loads([100, 100, 10], [300, 100, 10]), {"dp 0": (0, 1)}, splits)
    assert (row.group, row.ranks, row.steps, row.imbalance) == ("dp 0", (0, 1), 3, 0.0)
    (first,) = balances("tokens", "shapes", loads([100], [300]), {"dp 0": (0, 1)}, splits)
    assert (first.imbalance, first.most, first.most_rank, first.least_rank) == (0.5, 300, 1, 0)
    assert (row.correlation, row.samples) == (pytest.approx(1.0), 6)
    assert first.correlation is None


def test_late_is_the_longest_compute_beyond_the_mean_of_steps_in_which_all_are_known() -> None:
    splits = [
        split_of(rank, step, ns)
        for rank, own in enumerate(([100, 300, 100], [300, 100]))
        for step, ns in enumerate(own)
    ]
    (row,) = balances("tokens", "shapes", loads([1, 3, 9], [3, 1, 9]), {"dp 0": (0, 1)}, splits)
    assert (row.imbalance, row.most, row.late_ns) == (0.5, row.least, 100)
    (none,) = balances("tokens", "shapes", loads([1], [3]), {"dp 0": (0, 1)}, splits[:1])
    assert none.late_ns is None


def test_operations_stand_for_tokens_where_hardly_one_is_unknown() -> None:
    steps = [
        step_compute(rank=rank, step=step, kernels=10 * flops, flops=flops, known_share=known)
        for rank, step, flops, known in ((0, 1, 50, 1.0), (0, 2, 150, 0.95), (1, 1, 150, 1.0), (1, 2, 50, 0.5))
    ]
    found, work = operations_of(steps)
    assert {rank: own.rows() for rank, own in found.items()} == {0: [(1, 50), (2, 150)], 1: [(1, 150)]}
    (row,) = balances("operations", "shapes", found, {"dp 0": (0, 1)}, [], work)
    assert (row.what, row.late_ns, row.samples) == ("operations", 500, 3)


def test_each_group_is_judged_by_itself_and_the_most_uneven_comes_first() -> None:
    found = balances("expert tokens", "shapes", loads([100], [100], [100], [200]), {"a": (0, 1), "b": (2, 3)}, [])
    assert [(row.group, round(row.imbalance, 3)) for row in found] == [("b", 0.333), ("a", 0.0)]


def test_a_single_rank_is_not_balanced() -> None:
    assert balances("tokens", "shapes", loads([5]), {}, []) == ()


def test_a_matrix_of_few_ranks_has_a_row_for_each() -> None:
    matrix = rank_matrix((0, 3, 5), [("window", "ns", {0: 1.0, 3: 2.0, 5: 9.0}), ("none", "ns", {})])
    assert matrix is not None
    assert (matrix.ranks_per_row, [metric.name for metric in matrix.metrics]) == (1, ["window"])
    assert [(row.first_rank, row.cells[0] and row.cells[0].median) for row in matrix.rows] == [
        (0, 1.0),
        (3, 2.0),
        (5, 9.0),
    ]
    assert (matrix.metrics[0].spread.most, matrix.metrics[0].spread.most_rank) == (9.0, 5)


@given(st.integers(1, 5_000), st.integers(1, 200), st.data())
def test_however_many_ranks_there_are_rows_stay_few_and_no_extreme_is_lost(
    ranks: int, most: int, data: st.DataObject
) -> None:
    odd = data.draw(st.integers(0, ranks - 1))
    values = dict.fromkeys(range(ranks), 1.0) | {odd: 7.0}
    matrix = rank_matrix(range(ranks), [("window", "ns", values)], most=most)
    assert matrix is not None
    assert len(matrix.rows) <= most
    assert sum(row.ranks for row in matrix.rows) == ranks
    worst = max(matrix.rows, key=lambda row: row.cells[0].most if row.cells[0] else 0.0)
    assert worst.first_rank <= odd <= worst.last_rank
    assert worst.cells[0] is not None
    assert (worst.cells[0].most, worst.cells[0].most_rank) == (7.0, odd)


def test_a_rank_without_a_value_is_not_a_zero() -> None:
    matrix = rank_matrix((0, 1), [("tokens", "tokens", {1: 5.0})])
    assert matrix is not None
    assert matrix.rows[0].cells == (None,)


def grouped(*tokens: tuple[int, int]) -> pl.DataFrame:
    """Grouped multiplications of one rank, in their order: step and tokens of each."""
    return expert_calls_of(
        pl.DataFrame(
            [(step, f"gmm{at % 2}", at, f"{rows},64;8,64,64") for at, (step, rows) in enumerate(tokens)],
            schema={"step": pl.Int64, "name": pl.String, "start_ns": pl.Int64, "shapes": pl.String}, orient="row",
        )
    )  # fmt: skip


def test_tokens_are_compared_operator_by_operator() -> None:
    even = grouped((1, 100), (1, 100), (2, 100), (2, 50))
    uneven = grouped((1, 100), (1, 300), (2, 100), (2, 150))
    first, second = expert_operators({0: even, 1: uneven}, {"ep 0": (0, 1)})
    assert (first.place, first.name, first.steps, first.ranks) == (1, "gmm1", 2, (0, 1))
    # The router fills it by a half too much in each of the two steps.
    assert (first.imbalance, first.most, first.most_rank, first.least, first.mean) == (0.5, 225, 1, 75, 150)
    assert (second.place, second.imbalance) == (0, 0.0)


def test_steps_in_which_ranks_ran_different_operators_are_not_compared() -> None:
    one, other = grouped((1, 100), (2, 100)), grouped((1, 100), (1, 900), (2, 100))
    (row,) = expert_operators({0: one, 1: other}, {})
    assert (row.group, row.steps, row.imbalance) == ("all ranks", 1, 0.0)


def test_twenty_operators_are_named_of_any_number() -> None:
    many = {rank: grouped(*((1, 100 + rank * place) for place in range(40))) for rank in range(3)}
    rows = expert_operators(many, {})
    assert [row.place for row in rows] == list(range(39, 19, -1))


def test_a_rank_sends_no_more_than_some_thousand_calls() -> None:
    rows = grouped(*((step, 8) for step in range(5) for _ in range(MOST_CALLS // 3)))
    assert rows["step"].unique().sort().to_list() == [0, 1, 2]
    assert grouped(*((0, 8) for _ in range(2 * MOST_CALLS))).height == MOST_CALLS
