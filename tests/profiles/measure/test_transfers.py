"""Links against their peers, sizes of packets, alignment and stalls."""

from __future__ import annotations

import polars as pl
import pytest

from hermes.model.comm_measures import LinkPair
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.transfers import (
    alignment,
    link_pairs,
    moves_of,
    packets,
    reported_links,
    stalls,
    transfer_sums,
)

NO_LINKS = pl.DataFrame(
    schema={"rank": pl.Int64, "peer_rank": pl.Int64, "transport": pl.String, "bytes": pl.Int64, "time_ns": pl.Int64}
)
NO_ROWS = pl.DataFrame(
    schema={
        "rank": pl.Int64, "op": pl.String, "group": pl.String, "bytes": pl.Int64, "own_bytes": pl.Int64,
        "manner": pl.String, "key": pl.String,
        "split": pl.Boolean, "dur_ns": pl.Int64, "wait_ns": pl.Int64, "time_ns": pl.Int64, "arrival_ns": pl.Int64,
    }
)  # fmt: skip


def tasks(*rows: dict[str, object]) -> pl.DataFrame:
    base: dict[str, object] = {
        "rank": 0, "comm_id": 0, "task": "memcpy", "start_ns": 0, "dur_ns": 1_000, "bytes": 20_000, "peer_rank": 1,
        "transport": "SDMA", "link": "HCCS",
    }  # fmt: skip
    return pl.DataFrame([base | row for row in rows], schema=schema_of(TABLES["comm_task"]))


def summed(*rows: dict[str, object], steps: int = 1) -> pl.DataFrame:
    """Sums over transfers; operation n belongs to step n."""
    own = pl.DataFrame({"comm_id": list(range(steps)), "step": list(range(steps))})
    return transfer_sums(own, moves_of(tasks(*rows)))


def mesh(slow: tuple[int, int], factor: int, *, steps: int = 4) -> pl.DataFrame:
    """Transfers between four ranks in each step, those over one link so many times slower."""
    rows = [
        {
            "rank": rank, "peer_rank": peer, "comm_id": step, "start_ns": 100 * step + at,
            "dur_ns": 1_000 * (factor if (rank, peer) == slow else 1),
        }
        for step in range(steps)
        for rank in range(4)
        for at, peer in enumerate(other for other in range(4) if other != rank)
    ]  # fmt: skip
    own = pl.DataFrame({"comm_id": list(range(steps)), "step": list(range(steps))})
    return pl.concat(
        [transfer_sums(own, moves_of(tasks(*(r for r in rows if r["rank"] == rank)))) for rank in range(4)]
    )


def test_a_slow_link_is_told_from_its_peers_with_what_it_costs() -> None:
    first, *others = link_pairs(mesh((2, 3), 5), NO_LINKS, {})
    assert (first.rank, first.peer, first.transport) == (2, 3, "HCCS")
    assert (first.ratio, first.slower, first.compared, first.excess_ns) == (5.0, 4, 4, 4 * 4_000)
    assert first.gb_per_s == pytest.approx(4.0)
    assert first.p_value == pytest.approx(12 * 0.5**4)
    assert {(link.ratio, link.excess_ns, link.p_value) for link in others} == {(1.0, 0, 1.0)}
    assert len(others) == 11


def test_links_that_differ_by_less_than_their_nature_are_not_slower() -> None:
    rows = mesh((2, 3), 1).with_columns(median_ns=pl.col("median_ns") * (1 + pl.col("peer_rank") / 100))
    assert {link.slower for link in link_pairs(rows, NO_LINKS, {})} == {0}


def test_sizes_are_compared_with_their_like_only() -> None:
    rows = [{"peer_rank": 1}, {"peer_rank": 2, "bytes": 40_000, "dur_ns": 9_000}]
    assert {(link.ratio, link.compared, link.excess_ns) for link in link_pairs(summed(*rows), NO_LINKS, {})} == {
        (None, 0, None)
    }


def test_a_link_stands_against_what_the_chip_is_built_for() -> None:
    (link,) = link_pairs(summed({}), NO_LINKS, {0: "Ascend910B"})
    assert (link.gb_per_s, link.of_link) == (20.0, pytest.approx(20 / 28))
    (unknown,) = link_pairs(summed({}), NO_LINKS, {0: None})
    assert unknown.of_link is None


def test_a_job_of_a_thousand_ranks_gives_no_table_of_their_square() -> None:
    rows = [{"rank": 0, "peer_rank": peer} for peer in range(1, 3_000)]
    assert len(link_pairs(summed(*rows), NO_LINKS, {})) == 1_024


def test_moves_within_the_chip_and_waits_are_no_transfers() -> None:
    rows = tasks(
        {"link": "ON_CHIP"}, {"transport": "LOCAL", "link": None}, {"task": "notify_wait", "bytes": 0}, {"dur_ns": 0}
    )
    assert moves_of(rows).height == 0


def test_the_profilers_sums_give_speeds_where_no_transfer_is_recorded() -> None:
    columns = {"rank": 0, "group": "g", "transport": "HCCS", "bytes": 3_000, "time_ns": 1_000}
    rows = [
        columns | {"name": "allreduce-total", "src_rank": 0, "dst_rank": 1},
        columns | {"name": "allreduce-total", "src_rank": 0, "dst_rank": 0},
        columns | {"name": "allreduce-top1", "src_rank": 0, "dst_rank": 1},
    ]
    members = [{"rank": 0, "group": "g", "member": at, "global_rank": rank} for at, rank in enumerate((4, 6))]
    links = reported_links(
        pl.DataFrame(rows, schema=schema_of(TABLES["comm_link"])),
        pl.DataFrame(members, schema=schema_of(TABLES["group"])),
    )
    (link,) = link_pairs(summed().clear(), links, {})
    assert link == LinkPair(
        rank=4, peer=6, transport="HCCS", source="sums", transfers=None, bytes=3_000, time_ns=1_000, gb_per_s=3.0,
        of_link=None, ratio=None, compared=0, slower=0, excess_ns=None, p_value=None,
    )  # fmt: skip


def test_packets_are_counted_by_powers_of_two() -> None:
    found = packets(summed({"bytes": 1_024}, {"bytes": 2_047}, {"bytes": 2_048}, {"bytes": 1}))
    assert [(row.least_bytes, row.transfers, row.bytes) for row in found] == [
        (1, 1, 1),
        (1_024, 2, 3_071),
        (2_048, 1, 2_048),
    ]


def test_sizes_that_are_no_multiple_of_512_are_unaligned_unless_they_are_tiny() -> None:
    (row,) = alignment(summed({"bytes": 1_024}, {"bytes": 1_025, "dur_ns": 2_000}, {"bytes": 100}), NO_ROWS)
    assert (row.what, row.counted, row.unaligned, row.unaligned_time_ns) == ("HCCS", 3, 1, 2_000)
    assert row.unaligned_gb_per_s == pytest.approx(1_025 / 2_000)
    assert row.gb_per_s == pytest.approx(1_124 / 2_000)


def test_a_transfer_of_many_times_the_usual_time_is_stalled() -> None:
    usual = [{"comm_id": at, "transport": "RDMA", "link": "ROCE"} for at in range(7)]
    late = {"comm_id": 7, "dur_ns": 40_001_000, "start_ns": 77, "transport": "RDMA", "link": "ROCE"}
    (row,) = stalls(summed(*usual, late, steps=8), NO_ROWS)
    assert (row.rank, row.what, row.counted, row.stalled) == (0, "ROCE", 8, 1)
    assert (row.excess_ns, row.longest_ns, row.longest_at_ns) == (40_000_000, 40_001_000, 77)


def test_a_link_that_is_always_slow_is_not_stalled_and_a_stall_is_not_a_slow_link() -> None:
    assert stalls(mesh((2, 3), 5_000), NO_ROWS) == ()
    usual = [{"peer_rank": peer, "comm_id": at} for at in range(8) for peer in (1, 2, 3)]
    late = {"peer_rank": 1, "comm_id": 7, "dur_ns": 40_001_000}
    links = link_pairs(summed(*usual, late, steps=8), NO_LINKS, {})
    assert {(link.ratio, link.excess_ns) for link in links} == {(1.0, 0)}


def test_too_few_transfers_say_nothing_of_what_is_usual() -> None:
    assert stalls(summed({}, {"comm_id": 1, "dur_ns": 10**9}, steps=2), NO_ROWS) == ()


def operations(size: int, times_ns: list[int], begin: int) -> list[dict[str, object]]:
    """All-reduces of four ranks, each of which begins a nanosecond behind the one before."""
    return [
        {
            "rank": rank, "op": "all_reduce", "group": "g", "bytes": size, "manner": "all", "key": str(begin + at),
            "split": True, "dur_ns": 9, "wait_ns": 0, "arrival_ns": begin + at, "time_ns": time_ns,
        }
        for at, time_ns in enumerate(times_ns) for rank in range(4)
    ]  # fmt: skip


ONE_STALLED = [10_000] * 3 + [50_000_000] + [10_000] * 4


def test_without_transfers_a_stalled_operation_counts_once() -> None:
    (row,) = stalls(summed().clear(), pl.DataFrame(operations(8, ONE_STALLED, 0)))
    assert (row.rank, row.what, row.counted, row.stalled) == (None, "operations: all_reduce", 8, 1)
    assert (row.excess_ns, row.longest_at_ns) == (49_990_000, 3)


def test_a_larger_operation_that_always_takes_as_long_is_not_the_longest_stall() -> None:
    larger = operations(1 << 30, [50_000_000] * 8, 0)
    (row,) = stalls(summed().clear(), pl.DataFrame([*larger, *operations(8, ONE_STALLED, 100)]))
    assert (row.stalled, row.longest_ns, row.longest_at_ns) == (1, 50_000_000, 103)
