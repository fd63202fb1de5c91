"""Who waits for whom, and how fast links ran."""

from __future__ import annotations

import polars as pl

from hermes.model.step_measures import LinkSpeed, TaskWait
from hermes.model.tables import TABLES, empty, schema_of
from hermes.profiles.measure.communication.peer_waits import link_speeds, peer_waits


def tasks(*rows: dict[str, object]) -> pl.DataFrame:
    """Rows of `comm_task`; what a row leaves out is null, or a plain value where null is not allowed."""
    base: dict[str, object] = {"rank": 0, "task": "notify_wait", "start_ns": 0, "dur_ns": 0}
    return pl.DataFrame([base | row for row in rows], schema=schema_of(TABLES["comm_task"]))


def traffic(*rows: dict[str, object]) -> pl.DataFrame:
    base: dict[str, object] = {"rank": 0, "name": "hcom", "transport": "HCCS", "bytes": 0, "time_ns": 0}
    return pl.DataFrame([base | row for row in rows], schema=schema_of(TABLES["comm_traffic"]))


NO_TASKS, NO_TRAFFIC = empty(TABLES["comm_task"]), empty(TABLES["comm_traffic"])


def test_waits_for_one_peer_are_added_up_over_planes() -> None:
    rows = tasks({"peer_rank": 5, "dur_ns": 30, "plane": 0}, {"peer_rank": 5, "dur_ns": 12, "plane": 1})
    assert peer_waits(rows, (0,)) == (
        TaskWait(rank=0, peer=5, peer_collected=False, waits=2, total_ns=42, longest_ns=30, longest_at_ns=0),
    )


def test_waits_come_longest_first_then_by_rank_and_peer() -> None:
    rows = tasks(
        {"rank": 1, "peer_rank": 3, "dur_ns": 5}, {"rank": 0, "peer_rank": 4, "dur_ns": 5},
        {"rank": 0, "peer_rank": 2, "dur_ns": 5}, {"rank": 1, "peer_rank": 0, "dur_ns": 9},
    )  # fmt: skip
    assert [(wait.rank, wait.peer) for wait in peer_waits(rows, (0, 1))] == [(1, 0), (0, 2), (0, 4), (1, 3)]


def test_only_waits_that_name_another_rank_count() -> None:
    rows = tasks(
        {"peer_rank": None, "dur_ns": 5}, {"peer_rank": 0, "dur_ns": 5}, {"peer_rank": 1, "dur_ns": 5,
        "task": "memcpy"},
    )  # fmt: skip
    assert peer_waits(rows, (0,)) == ()


def test_a_peer_is_known_to_be_collected_or_not() -> None:
    rows = tasks({"peer_rank": 1, "dur_ns": 5}, {"peer_rank": 2, "dur_ns": 4})
    assert [wait.peer_collected for wait in peer_waits(rows, (0, 1))] == [True, False]


def test_a_link_runs_at_the_bytes_of_its_transfers_over_their_time() -> None:
    rows = tasks(
        {"task": "memcpy", "bytes": 600, "dur_ns": 20, "link": "HCCS"}, {"task": "reduce", "bytes": 200, "dur_ns": 20,
        "link": "HCCS"},
    )  # fmt: skip
    assert link_speeds(rows, NO_TRAFFIC) == (LinkSpeed(rank=0, transport="HCCS", bytes=800, time_ns=40, gb_per_s=20.0),)


def test_moves_within_a_chip_are_no_link() -> None:
    rows = tasks(
        {"bytes": 9, "dur_ns": 1, "link": "ON_CHIP"}, {"bytes": 9, "dur_ns": 1, "transport": "LOCAL"},
    )  # fmt: skip
    assert link_speeds(rows, NO_TRAFFIC) == ()


def test_a_transfer_without_a_link_goes_by_its_transport_or_as_unknown() -> None:
    rows = tasks({"bytes": 9, "dur_ns": 1, "transport": "SDMA"}, {"bytes": 4, "dur_ns": 1})
    assert [(speed.transport, speed.bytes) for speed in link_speeds(rows, NO_TRAFFIC)] == [("SDMA", 9), ("unknown", 4)]


def test_transfers_without_bytes_or_time_have_no_speed() -> None:
    rows = tasks(
        {"bytes": 0, "dur_ns": 9, "link": "HCCS"},
        {"bytes": 9, "dur_ns": 0, "link": "HCCS"},
        {"dur_ns": 9, "link": "HCCS"},
    )
    assert link_speeds(rows, NO_TRAFFIC) == ()


def test_the_profilers_sums_serve_where_no_transfer_is_recorded() -> None:
    sums = traffic(
        {"bytes": 30, "time_ns": 2},
        {"bytes": 10, "time_ns": 2},
        {"rank": 1, "bytes": 1, "time_ns": 1, "transport": "RDMA"},
    )
    assert link_speeds(NO_TASKS, sums) == (
        LinkSpeed(rank=0, transport="HCCS", bytes=40, time_ns=4, gb_per_s=10.0),
        LinkSpeed(rank=1, transport="RDMA", bytes=1, time_ns=1, gb_per_s=1.0),
    )


def test_no_byte_of_the_profilers_sums_is_counted_twice() -> None:
    sums = traffic(
        {"bytes": 30, "time_ns": 2},
        {"bytes": 30, "time_ns": 2, "packet_bytes": 15, "packets": 2},
        {"bytes": 30, "time_ns": 2, "transport": "SDMA"},
        {"bytes": 30, "time_ns": 2, "name": "Total Op Info"},
    )
    assert [speed.bytes for speed in link_speeds(NO_TASKS, sums)] == [30]


def test_single_transfers_are_preferred_to_sums() -> None:
    rows = tasks({"bytes": 9, "dur_ns": 3, "link": "HCCS"})
    assert [speed.bytes for speed in link_speeds(rows, traffic({"bytes": 30, "time_ns": 2}))] == [9]
