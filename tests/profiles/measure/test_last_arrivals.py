"""Who arrived last at a collective, and how long the others waited."""

from __future__ import annotations

import polars as pl

from hermes.model.step_measures import ArrivalWait
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.last_arrivals import (
    Arrival,
    ArrivalsByRank,
    arrivals,
    identified_operations,
    operations_of_all_ranks,
    with_keys,
)
from hermes.profiles.measure.communication.last_arrivals import arrivals_by_starts as starts_of
from hermes.profiles.measure.communication.last_arrivals import longest_peer_waits as waits_by_peer
from hermes.profiles.measure.communication.last_arrivals import rank_waits as waits_of
from hermes_testing import draw

STARTS = pl.DataFrame(
    schema={"rank": pl.Int64, "comm_id": pl.Int64, "at_ns": pl.Int64, "last": pl.Int64, "last_id": pl.Int64}
)
NOBODY = pl.DataFrame(schema={"rank": pl.Int64, "comm_id": pl.Int64, "late": pl.Int64, "peer_at_ns": pl.Int64})
THREE = """
    rank0.comm  ##########....
    rank1.comm  ....######....
    rank2.comm  ..########....
"""


def comm(text: str, scale_ns: int = 10_000) -> dict[int, pl.DataFrame]:
    tables = draw(text, scale_ns=scale_ns)["comm_op"]
    return {rank: tables.filter(pl.col("rank") == rank) for rank in tables["rank"].unique().sort()}


def every(ranks: dict[int, pl.DataFrame]) -> pl.DataFrame:
    return operations_of_all_ranks({rank: with_keys(rank, rows) for rank, rows in ranks.items()})


def by_starts(ranks: dict[int, pl.DataFrame], clocks: dict[int, tuple[int, int]]) -> dict[int, dict[int, Arrival]]:
    found = arrivals(starts_of(every(ranks), clocks), NOBODY)
    return {rank: dict(own) for rank, own in ArrivalsByRank(found, sorted(ranks)).items()}


def by_peer(waits: pl.DataFrame, collected: set[int]) -> dict[int, Arrival]:
    late = waits_by_peer(waits).filter(~pl.col("late").is_in(list(collected))).with_columns(pl.lit(0).alias("rank"))
    found = arrivals(STARTS.clear(), late.with_columns(pl.col("rank").cast(pl.Int64)))
    return dict(ArrivalsByRank(found, {0})[0])


def rank_waits(ranks: dict[int, pl.DataFrame], collected: set[int]) -> tuple[ArrivalWait, ...]:
    rows = every(ranks)
    return waits_of(rows, arrivals(starts_of(rows, {}), NOBODY), collected)


def tasks(*rows: tuple[int, int | None, int, int]) -> pl.DataFrame:
    """Waits of rank 0: operation, awaited rank, start, length."""
    named = [
        {"rank": 0, "comm_id": op, "task": "notify_wait", "peer_rank": peer, "start_ns": start, "dur_ns": length}
        for op, peer, start, length in rows
    ]
    return pl.DataFrame(named, schema=schema_of(TABLES["comm_task"]))


def test_the_last_to_start_holds_up_the_others_until_it_starts() -> None:
    found = by_starts(comm(THREE), {})
    assert found == {
        0: {0: Arrival(at_ns=40_000, rank=1, comm_id=0)},
        1: {},
        2: {0: Arrival(at_ns=40_000, rank=1, comm_id=0)},
    }


def test_clocks_are_aligned_first() -> None:
    # Rank 0's clock is 60 us behind: it was the last.
    found = by_starts(comm(THREE), {0: (60_000, 0)})
    assert found[0] == {}
    # The moment is on the waiting rank's own clock, and inside its operation.
    assert found[1] == {0: Arrival(at_ns=60_000, rank=0, comm_id=0)}


def test_a_lead_within_the_error_of_the_clocks_is_none() -> None:
    assert by_starts(comm(THREE), {0: (0, 15_000), 1: (0, 30_000)})[0] == {}


def test_a_rank_alone_tells_nothing() -> None:
    assert by_starts(comm("rank0.comm  ####"), {}) == {0: {}}


def test_a_broadcast_makes_nobody_wait() -> None:
    ranks = {rank: rows.with_columns(pl.lit("broadcast").alias("op")) for rank, rows in comm(THREE).items()}
    assert all(not own for own in by_starts(ranks, {}).values())


def test_the_longest_wait_names_a_rank_that_was_not_collected() -> None:
    waits = tasks((0, 5, 100, 90_000), (0, 3, 100, 30_000), (1, 5, 200_000, 10_000))
    assert by_peer(waits, {0}) == {0: Arrival(at_ns=90_100, rank=5, comm_id=None)}


def test_a_wait_for_a_collected_or_an_unknown_rank_is_left_to_the_starts() -> None:
    assert by_peer(tasks((0, 1, 0, 90_000), (1, None, 0, 90_000), (2, 0, 0, 90_000)), {0, 1}) == {}


def planes(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    """Tasks of one operation of rank 0 with rank 5: kind, plane, start, length; `memcpy` moves data."""
    made = [
        {"rank": 0, "comm_id": 0, "task": task, "plane": plane, "peer_rank": 5, "start_ns": start, "dur_ns": length,
         "bytes": 8 if task == "memcpy" else 0, "link": "HCCS" if task == "memcpy" else None}
        for task, plane, start, length in rows
    ]  # fmt: skip
    return pl.DataFrame(made, schema=schema_of(TABLES["comm_task"]))


def test_waiting_for_a_transfer_to_end_is_no_waiting_for_an_arrival() -> None:
    rows = [("notify_wait", 1, 0, 30_000), ("memcpy", 1, 30_000, 500_000), ("notify_wait", 1, 530_000, 90_000)]
    assert by_peer(planes(*rows), {0})[0].at_ns == 30_000
    assert by_peer(planes(*rows[1:]), {0}) == {}


def test_a_wait_longer_than_any_transfer_is_for_an_arrival_wherever_it_stands() -> None:
    rows = [("memcpy", 1, 0, 50_000), ("notify_wait", 1, 50_000, 9_000_000)]
    assert by_peer(planes(*rows), {0})[0].at_ns == 9_050_000


def test_the_first_transfer_of_each_plane_ends_its_own_waits_alone() -> None:
    rows = [("memcpy", 1, 0, 400_000), ("notify_wait", 2, 100, 300_000), ("memcpy", 2, 300_100, 400_000)]
    assert by_peer(planes(*rows), {0})[0].at_ns == 300_100


def test_waits_are_summed_by_who_was_waited_for() -> None:
    ranks = comm("""
        rank0.comm  ######.########
        rank1.comm  ....##.....####
    """)
    (wait,) = rank_waits(ranks, {0, 1})
    assert (wait.rank, wait.peer, wait.peer_collected, wait.waits) == (0, 1, True, 2)
    assert (wait.total_ns, wait.longest_ns, wait.longest_at_ns) == (80_000, 40_000, 0)


def test_the_order_of_ranks_does_not_matter() -> None:
    ranks = comm(THREE)
    turned = dict(sorted(ranks.items(), reverse=True))
    assert rank_waits(ranks, {0, 1, 2}) == rank_waits(turned, {0, 1, 2})


def groups(*members: tuple[str, int]) -> pl.DataFrame:
    rows = [{"rank": 0, "group": name, "member": 0, "global_rank": rank} for name, rank in members]
    return pl.DataFrame(rows, schema=schema_of(TABLES["group"]))


def test_groups_of_one_name_and_other_members_are_two() -> None:
    ranks = comm("""
        rank0.comm:dp  ########
        rank1.comm:dp  ####....
        rank2.comm:dp  ......##
    """)
    pair, alone = groups(("dp", 0), ("dp", 1)), groups(("dp", 2), ("dp", 3))
    told = {rank: identified_operations(rank, rows, alone if rank == 2 else pair) for rank, rows in ranks.items()}
    assert by_starts(told, {}) == {0: {}, 1: {}, 2: {}}


def test_a_receive_waits_for_its_send() -> None:
    ranks = comm("""
        rank0.comm:pp  ########
        rank1.comm:pp  .....###
    """)
    both = groups(("pp", 0), ("pp", 1))
    ops = {0: "recv", 1: "send"}
    told = {
        rank: identified_operations(rank, rows.with_columns(pl.lit(ops[rank]).alias("op")), both)
        for rank, rows in ranks.items()
    }
    assert by_starts(told, {}) == {0: {0: Arrival(at_ns=50_000, rank=1, comm_id=0)}, 1: {}}


def test_without_members_a_group_keeps_its_name_and_its_peers() -> None:
    (rows,) = comm("rank0.comm:pp  ####").values()
    told = identified_operations(0, rows, groups())
    assert told.select("group", "peer").rows() == [("pp", None)]


def test_waits_for_several_operations_at_once_pass_once() -> None:
    # Rank 0 begins one at 0 and one at 20 us; rank 1 begins both at 60 us.
    found = {0: [(0, 0), (1, 20_000)], 1: [(0, 60_000), (1, 60_000)]}
    starts = [(rank, number, start) for rank, rows in found.items() for number, start in rows]
    began = pl.DataFrame(starts, schema={"rank": pl.Int64, "comm_id": pl.Int64, "start_ns": pl.Int64}, orient="row")
    late = pl.DataFrame([(0, number, 60_000, 1, number) for number in (0, 1)], schema=STARTS.schema, orient="row")
    (wait,) = waits_of(began, late, {0, 1})
    assert (wait.waits, wait.total_ns, wait.longest_ns, wait.longest_at_ns) == (2, 60_000, 60_000, 0)
