"""Collectives without recorded groups: matched where they end together, left alone where they do not."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn

from hermes.base.say import say
from hermes.profiles.measure.communication.last_arrivals import (
    identified_operations,
    operations_of_all_ranks,
    with_keys,
)
from hermes.profiles.measure.communication.unrecorded_members import JobSize
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo
from hermes.profiles.pipeline.pair_operations import (
    PairedOperations,
    pair_operations,
    rank_ranges_text,
)
from hermes_testing import draw

LATE = """
    rank0.step      [################]
    rank0.comm      ##########.######.
    rank1.step      [################]
    rank1.comm      ..########...####.
    rank2.step      [################]
    rank2.comm      .........#.######.
"""


def found(
    text: str, *, world: int = 0, host: str | None = "one", shift: Mapping[int, int] | None = None
) -> PairedOperations:
    """The operations as drawn, in cells of 100 us, without their groups."""
    no_groups = draw(text)["group"].clear()
    rows = {}
    for rank, own in drawn(text, group=None, bytes=64).items():
        moved = own.with_columns(
            pl.col("start_ns") * 100 + (shift or {}).get(rank, 0), pl.col("dur_ns") * 100, pl.lit(7).alias("stream")
        )
        rows[rank] = with_keys(rank, identified_operations(rank, moved, no_groups))
    hosts = {rank: host and f"{host} {rank if shift and rank in shift else 0}" for rank in rows}
    return paired(rows, hosts, world=world)


def paired(
    rows: Mapping[int, pl.DataFrame],
    hosts: Mapping[int, str | None],
    groups: Mapping[str, GroupInfo] | None = None,
    *,
    world: int = 0,
) -> PairedOperations:
    size = JobSize(collected=tuple(rows), told=world or None, least=max(world, len(rows)))
    return pair_operations(operations_of_all_ranks(rows), groups or {}, hosts, size)


def groups(made: PairedOperations) -> set[str]:
    return {info.label for info in made.groups.values()}


def test_operations_that_end_together_on_all_ranks_are_of_one_group() -> None:
    made = found(LATE)
    assert groups(made) == {"ranks 0-2"}
    assert made.every["key"].null_count() == 0
    assert made.every.group_by("key").len()["len"].to_list() == [3, 3]
    (info,) = made.groups.values()
    assert (info.members, info.size) == ((0, 1, 2), 3)


def test_of_a_job_whose_ranks_were_not_all_collected_the_size_of_a_group_is_not_known() -> None:
    (info,) = found(LATE, world=8).groups.values()
    assert (info.members, info.size) == (None, None)


def test_two_groups_of_the_same_calls_are_told_apart_by_their_ends() -> None:
    made = found("""
        rank0.step   [############]
        rank0.comm   ####...#####..
        rank1.step   [############]
        rank1.comm   .###....####..
        rank2.step   [############]
        rank2.comm   ..####...#####
        rank3.step   [############]
        rank3.comm   ...###.....###
    """)
    assert groups(made) == {"ranks 0-1", "ranks 2-3"}


def test_who_leaves_before_another_came_is_not_of_its_group() -> None:
    made = found("""
        rank0.step   [##########]
        rank0.comm   ##..##......
        rank1.step   [##########]
        rank1.comm   ...##..##...
    """)
    assert not made.groups
    assert made.every["group"].null_count() == 4
    assert "not matched" in say(made.notes[-1])


def test_clocks_of_two_hosts_may_lie_apart_by_a_constant() -> None:
    text = """
        rank0.step   [######################]
        rank0.comm   ####...#####..##...###..
        rank1.step   [######################]
        rank1.comm   .###....####...#...###..
    """
    assert groups(found(text, shift={1: 10_000_000})) == {"ranks 0-1"}


def test_devices_of_one_host_may_lie_apart_by_little_and_no_more() -> None:
    text = """
        rank0.step   [####################]
        rank0.comm   ###...####....#######.
        rank1.step   [####################]
        rank1.comm   .##....###......#####.
    """
    assert groups(_moved(text, 31_000)) == {"ranks 0-1"}
    assert groups(_moved(text, 310_000)) == set()


def _moved(text: str, ns: int) -> PairedOperations:
    """The operations as drawn, the second rank's later by so much, on the same host."""
    no_groups = draw(text)["group"].clear()
    rows = {}
    for rank, own in drawn(text, group=None, bytes=64).items():
        start = pl.col("start_ns") * 100 + (ns if rank else 0)
        moved = own.with_columns(start, pl.col("dur_ns") * 100, pl.lit(7).alias("stream"))
        rows[rank] = with_keys(rank, identified_operations(rank, moved, no_groups))
    return paired(rows, dict.fromkeys(rows, "one"))


def test_one_operation_does_not_tell_a_distance_of_clocks() -> None:
    text = """
        rank0.step   [####]
        rank0.comm   ###...
        rank1.step   [####]
        rank1.comm   .##...
    """
    assert groups(found(text)) == {"ranks 0-1"}
    assert not found(text, shift={1: 10_000_000}).groups


def test_captures_without_steps_that_begin_at_different_operations_are_matched_by_their_ends() -> None:
    made = found("""
        rank0.comm   ##..###..####..##.
        rank1.comm   .....##..####...#.
    """)
    assert groups(made) == {"ranks 0-1"}
    assert made.every.drop_nulls("key").group_by("key").len().sort("key")["len"].to_list() == [1, 2, 2, 2]


def test_a_rank_alone_is_left_as_it_is() -> None:
    made = found("rank0.step  [####]\nrank0.comm  ###...")
    assert (made.groups, made.notes) == ({}, ())


def test_many_ranks_are_said_in_few_words() -> None:
    assert rank_ranges_text([0, 1, 2, 3, 8, 10, 11]) == "ranks 0-3, 8, 10-11"


@given(st.permutations(range(3)))
def test_the_order_of_ranks_changes_nothing(order: list[int]) -> None:
    text = LATE
    for rank, other in enumerate(order):
        text = text.replace(f"rank{rank}.", f"rank_{other}.")
    made = found(text.replace("rank_", "rank"))
    assert groups(made) == {"ranks 0-2"}
    assert made.every["key"].n_unique() == 2
