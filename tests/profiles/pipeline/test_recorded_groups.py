"""Groups that the ranks record in part: paired and counted as whole where nothing contradicts, and else left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profiles.measure.comm_rows import drawn

from hermes.base.say import say
from hermes.model.tables import TABLES, schema_of
from hermes.profiles.measure.communication.last_arrivals import (
    arrivals_by_starts,
    identified_operations,
    operations_of_all_ranks,
    with_keys,
)
from hermes.profiles.measure.communication.unrecorded_members import JobSize
from hermes.profiles.measure.communication.wait_and_transfer import GroupInfo, group_info, operations
from hermes.profiles.pipeline.pair_operations import PairedOperations, pair_operations

CELL = 100_000
Members = Mapping[int, Mapping[str, Sequence[int | None]]]
"""For each rank the groups that it records, and their members; None: a member whose global rank is not recorded."""

EVEN = """
    rank0.comm:tp   ####..#####...###..####
    rank1.comm:tp   .###...####..####...###
    rank2.comm:tp   ...#..#####....##..####
"""


def longer(text: str) -> str:
    """The same operations four times."""
    lines = (line.split() for line in text.strip().splitlines())
    return "\n".join(f"{head} {'..'.join([cells] * 4)}" for head, cells in lines)


@dataclass(frozen=True, kw_only=True)
class Told:
    """The paired operations, and the wait of each in cells; None where it is not told apart from transfer."""

    made: PairedOperations
    rows: pl.DataFrame

    def waits(self, rank: int) -> list[float | None]:
        """The waits of a rank."""
        own = self.rows.filter(pl.col("rank") == rank).sort("start_ns")["wait_ns"]
        return [None if ns is None else ns / CELL for ns in own]

    @property
    def notes(self) -> str:
        """All notes."""
        return " ".join(say(note) for note in self.made.notes)


def tables(text: str, **columns: object) -> dict[int, pl.DataFrame]:
    """The operations as drawn, in cells of 100 us."""
    scaled = {"start_ns": pl.col("start_ns") * 100, "dur_ns": pl.col("dur_ns") * 100}
    return {rank: own.with_columns(**scaled) for rank, own in drawn(text, bytes=64, **columns).items()}


def paired(
    comm_op: Mapping[int, pl.DataFrame],
    members: Members | None = None,
    *,
    world: int | None = None,
    hosts: Mapping[int, str] | None = None,
) -> Told:
    """What is told of the operations of these ranks, all on one host."""
    rows, groups = {}, dict[str, GroupInfo]()
    for rank, own in comm_op.items():
        group = recorded(rank, (members or {}).get(rank, {}))
        rows[rank] = with_keys(rank, identified_operations(rank, own, group))
        groups |= {name: info for name, info in group_info(group).items() if name not in groups}
    least = max(max(rows) + 1, world or 0, *(info.size or 0 for info in groups.values()), 0)
    size = JobSize(collected=tuple(sorted(rows)), told=world, least=least)
    made = pair_operations(operations_of_all_ranks(rows), groups, hosts or dict.fromkeys(sorted(rows), "one"), size)
    every = made.every.with_columns(pl.lit(value=False).alias("named"))
    offsets = {clock.rank: (clock.offset_ns, clock.error_ns or 0) for clock in made.clocks}
    late = pl.DataFrame(schema={"rank": pl.Int64, "comm_id": pl.Int64, "late": pl.Int64, "peer_at_ns": pl.Int64})
    return Told(made=made, rows=operations(every, offsets, late, made.groups).rows)


def recorded(rank: int, groups: Mapping[str, Sequence[int | None]]) -> pl.DataFrame:
    """The table `group` of a rank."""
    made = [
        {"rank": rank, "group": name, "name": name, "member": member, "global_rank": who}
        for name, members in groups.items() for member, who in enumerate(members)
    ]  # fmt: skip
    return pl.DataFrame(made, schema=schema_of(TABLES["group"]))


def alike(ranks: Sequence[int], **groups: Sequence[int | None]) -> Members:
    """The same groups, recorded by each of these ranks."""
    return dict.fromkeys(ranks, groups)


# Members that were not recorded


def test_ranks_that_took_part_equally_often_and_left_together_are_the_members() -> None:
    told = paired(tables(longer(EVEN)), world=3)
    assert told.made.groups["tp"] == GroupInfo(label="tp", members=(0, 1, 2), size=3, source="inferred")
    assert [told.waits(rank)[:4] for rank in range(3)] == [[3, 1, 1, 1], [2, 0, 2, 0], [0, 1, 0, 1]]
    assert "inferred" in told.notes
    assert "(ranks 0-2)" in told.notes


def test_as_many_ranks_as_the_job_has_are_the_members() -> None:
    assert paired(tables(EVEN), world=3).made.groups["tp"].members == (0, 1, 2)
    # The operations of three ranks look alike whether the job has three ranks or eight.
    assert "tp" not in paired(tables(longer(EVEN))).made.groups


def test_as_many_ranks_as_the_group_has_are_the_members_and_these_are_recorded() -> None:
    told = paired(tables(EVEN), alike((0, 1, 2), tp=(None, None, None)), world=6)
    assert (told.made.groups["tp"].size, told.made.groups["tp"].source) == (3, "recorded")
    assert told.waits(0) == [3, 1, 1, 1]


@pytest.mark.parametrize(
    ("members", "world"),
    [({}, 6), (alike((0, 1, 2), tp=(None,) * 6), None), (alike((0, 1, 2), tp=(0, 1, 2, 3, 4, 5)), None)],
)
def test_of_half_of_the_ranks_no_wait_is_told(members: Members, world: int | None) -> None:
    told = paired(tables(longer(EVEN)), members, world=world)
    assert all(told.waits(rank) == [None] * 16 for rank in range(3))


def test_a_missing_number_among_the_ranks_means_that_a_rank_was_not_collected() -> None:
    assert paired(tables(longer(EVEN.replace("rank2", "rank3")))).waits(0) == [None] * 16


def test_a_rank_that_took_part_less_often_may_stand_for_another_group() -> None:
    told = paired(tables(EVEN.replace("...#..#####....##..####", "...#...........##..####"), name="A"), world=3)
    assert "tp" not in told.made.groups
    assert all(wait is None for rank in range(3) for wait in told.waits(rank))


def test_groups_of_one_name_that_end_apart_are_not_taken_for_one() -> None:
    told = paired(
        tables("""
            rank0.comm:dp   ####..#####...###..####....
            rank1.comm:dp   .###...####..####...###....
            rank2.comm:dp   ..####..#####...###..####..
            rank3.comm:dp   ...###...####...###...###..
        """),
        world=4,
    )
    assert "dp" not in told.made.groups
    assert all(wait is None for rank in range(4) for wait in told.waits(rank))


def test_groups_of_one_name_are_told_apart_by_their_ends_if_their_size_is_told() -> None:
    told = paired(
        tables("""
            rank0.comm:dp   ####..#####...###..####....
            rank1.comm:dp   .###...####..####...###....
            rank2.comm:dp   ..####..#####...###..####..
            rank3.comm:dp   ...###...####...###...###..
        """),
        alike(range(4), dp=(None, None)),
    )
    assert {info.members for info in told.made.groups.values() if info.members} == {(0, 1), (2, 3)}
    assert (told.waits(0), told.waits(2)) == ([1, 1, 0, 1], [1, 1, 0, 1])


def test_one_that_leaves_before_another_arrives_proves_that_they_are_not_one() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   AA...BBB....CC...
            rank1.comm:tp   ..AAA...BBB...CCC
        """),
        world=2,
    )
    assert "tp" not in told.made.groups
    assert told.waits(0) == [None] * 3


def test_two_operations_do_not_tell_the_members() -> None:
    assert "tp" not in paired(tables("rank0.comm:tp  ###..###\nrank1.comm:tp  .##...##"), world=2).made.groups


def test_ranks_of_a_job_that_was_collected_whole_are_the_members_of_part_of_it() -> None:
    text = EVEN + "rank3.compute  ####"
    assert paired({**tables(text), 3: tables(text)[0].clear()}, world=4).made.groups["tp"].members == (0, 1, 2)
    # Operations of no known group may belong to it.
    nameless = {3: tables("rank3.comm  #..#..#", group=None)[3]}
    assert "tp" not in paired(tables(EVEN) | nameless, world=4).made.groups


# Captures that begin or end at different operations


def test_a_capture_that_begins_later_is_paired_by_the_ends_of_its_operations() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   ###..####..##..#####..##
            rank1.comm:tp   ......###...#..#####...#
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert told.waits(0) == [None, 1, 1, 0, 1]
    assert told.waits(1) == [0, 0, 0, 0]


def test_a_capture_that_ends_earlier_keeps_its_pairs() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   ###..####..##..#####..##
            rank1.comm:tp   ..#...###...#...####....
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert told.waits(0) == [2, 1, 1, 1, None]


def test_captures_of_equal_length_may_begin_at_different_operations() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   ###..####..##..#####......
            rank1.comm:tp   ......###...#...####...###
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert (told.waits(0), told.waits(1)) == ([None, 1, 1, 1], [0, 0, 0, None])


def test_captures_of_two_clocks_that_begin_at_different_operations_are_paired_where_they_end_together() -> None:
    ranks = tables("""
        rank0.comm:tp   ###..####..##...........#####....####......
        rank1.comm:tp   ......###...#............####......##....##
    """)
    ranks[1] = ranks[1].with_columns(pl.col("start_ns") + 10**10)
    told = paired(ranks, alike((0, 1), tp=(0, 1)), hosts={0: "one", 1: "another"})
    assert (told.waits(0), told.waits(1)) == ([None, 1, 1, 1, 2], [0, 0, 0, 0, None])


def test_a_capture_that_begins_within_a_step_is_paired_by_the_ends_of_its_operations() -> None:
    told = paired(
        tables("""
            rank0.step      [###########][##########]
            rank0.comm:tp   .##..####.##..##.####.##
            rank1.step      .....[######][##########]
            rank1.comm:tp   .......##..#..##..###..#
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert told.waits(0) == [None, 2, 1, 0, 1, 1]


def test_members_that_were_not_recorded_take_part_in_what_all_captures_hold() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   ###..####..##..#####..##
            rank1.comm:tp   ......###...#..#####...#
        """),
        world=2,
    )
    assert told.made.groups["tp"].members == (0, 1)
    assert told.waits(0) == [None, 1, 1, 0, 1]


def test_operations_that_overlap_nowhere_are_not_paired() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   ##..##..##..##................
            rank1.comm:tp   ................##..##..##....
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert told.waits(0) == [None] * 4
    assert told.made.every.filter(pl.col("rank") == 1)["key"].null_count() == 3


def test_operations_of_different_sizes_are_not_paired() -> None:
    ranks = tables(EVEN)
    ranks[1] = ranks[1].with_columns(pl.lit(128).alias("bytes"))
    for members in ({}, alike((0, 1, 2), tp=(0, 1, 2))):
        told = paired(ranks, members, world=3)
        assert all(wait is None for rank in range(3) for wait in told.waits(rank))


def test_a_wrong_pair_makes_no_rank_wait() -> None:
    told = paired(
        tables("""
            rank0.comm:tp   A....B....
            rank1.comm:tp   ..A....B..
        """),
        alike((0, 1), tp=(0, 1)),
    )
    assert not arrivals_by_starts(told.made.every, {}).height


# Groups that some ranks do not name


def test_a_group_that_one_rank_names_is_that_of_its_members() -> None:
    ranks = tables(EVEN)
    nameless = {
        rank: own.with_columns(group=None, stream=pl.lit(7, dtype=pl.Int64)) if rank else own
        for rank, own in ranks.items()
    }
    told = paired(nameless, {0: {"tp": (0, 1, 2)}})
    assert told.made.every["group"].unique().to_list() == ["tp (0, 1, 2)"]
    assert [told.waits(rank) for rank in range(3)] == [[3, 1, 1, 1], [2, 0, 2, 0], [0, 1, 0, 1]]


def test_ranks_that_record_no_members_are_members_of_the_group_that_one_rank_records() -> None:
    told = paired(tables(EVEN), {0: {"tp": (0, 1, 2)}})
    assert told.waits(0) == [3, 1, 1, 1]


def test_ranks_may_name_one_group_differently() -> None:
    ranks = tables(EVEN)
    other = {**ranks, 1: ranks[1].with_columns(group=pl.lit("group 1"))}
    told = paired(other, {0: {"tp": (0, 1, 2)}, 1: {"group 1": (0, 1, 2)}, 2: {"tp": (0, 1, 2)}})
    assert told.waits(1) == [2, 0, 2, 0]
    told = paired(other, {0: {"tp": (0, 1, 2)}, 2: {"tp": (0, 1, 2)}})
    assert told.waits(1) == [2, 0, 2, 0]


def test_a_rank_that_is_no_member_does_not_belong_to_a_group() -> None:
    ranks = tables(EVEN)
    told = paired(
        {**ranks, 2: ranks[2].with_columns(group=None, stream=pl.lit(7, dtype=pl.Int64))}, alike((0, 1), tp=(0, 1))
    )
    assert told.made.every.filter(pl.col("rank") == 2)["group"].null_count() == 4
    assert told.waits(0) == [1, 1, 0, 1]


def test_operations_that_end_elsewhere_do_not_belong_to_a_group_that_one_rank_names() -> None:
    ranks = tables("""
        rank0.comm:tp   ####..#####...###..####...
        rank1.comm      ...####..#####...###..####
    """)
    told = paired(
        {**ranks, 1: ranks[1].with_columns(group=None, stream=pl.lit(7, dtype=pl.Int64))}, {0: {"tp": (0, 1)}}
    )
    assert told.waits(0) == [None] * 4
    assert told.made.every.filter(pl.col("rank") == 1)["group"].null_count() == 4


def test_each_of_two_groups_of_the_same_members_gets_its_own() -> None:
    ranks = tables("""
        rank0.comm:tp   ####.......###......####
        rank0.comm:dp   .....####.......##......
        rank1.comm:tp   ..##.........#.......###
        rank1.comm:dp   ......###.......##......
    """)
    streams = pl.when(pl.col("group") == "tp").then(7).otherwise(8)
    nameless = ranks[1].with_columns(streams.cast(pl.Int64).alias("stream"), pl.lit(None).alias("group"))
    told = paired({**ranks, 1: nameless}, {0: {"tp": (0, 1), "dp": (0, 1)}})
    assert told.waits(0) == [2, 1, 2, 0, 1]


# Laws


@st.composite
def jobs(pick: st.DrawFn) -> tuple[dict[int, pl.DataFrame], Members, dict[int, list[int]]]:
    """A job of one group: ranks whose captures begin and end anywhere, and the operations that each has."""
    ranks = pick(st.integers(2, 4))
    many = pick(st.integers(4, 9))
    ends, moment = [], 0
    for _ in range(many):
        moment += pick(st.integers(3, 40)) * CELL
        ends.append(moment)
    comm_op, members, kept = dict[int, pl.DataFrame](), dict[int, Mapping[str, Sequence[int | None]]](), {}
    how = pick(st.sampled_from(["recorded", "not recorded", "by one"]))
    for rank in range(ranks):
        first, last = pick(st.integers(0, 3)), many - pick(st.integers(0, 2))
        kept[rank] = list(range(min(first, last - 1), last))
        lead = [pick(st.integers(1, 2)) for _ in kept[rank]]
        rows = [
            {"rank": rank, "comm_id": at, "name": "all_reduce", "op": "all_reduce", "group": "g", "sequence": at,
             "stream": 7, "start_ns": ends[number] - lead[at] * CELL, "dur_ns": lead[at] * CELL, "bytes": 64}
            for at, number in enumerate(kept[rank])
        ]  # fmt: skip
        comm_op[rank] = pl.DataFrame(rows, schema=schema_of(TABLES["comm_op"]))
        if how == "recorded" or (how == "by one" and not rank):
            members[rank] = {"g": tuple(range(ranks))}
    return comm_op, members, kept


def pairs(made: PairedOperations, kept: Mapping[int, Sequence[int]]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """By group and key, the ranks that have the operation, and which operation of the job each of them has."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for rank, at, group, key in made.every.select("rank", "comm_id", "group", "key").drop_nulls().iter_rows():
        found.setdefault((group, key), []).append((rank, kept[rank][at]))
    return found


@settings(max_examples=60, deadline=None)
@given(jobs())
def test_no_pair_is_wrong_wherever_captures_begin(
    job: tuple[dict[int, pl.DataFrame], Members, dict[int, list[int]]],
) -> None:
    comm_op, members, kept = job
    told = paired(comm_op, members, world=len(comm_op))
    assert all(len({number for _, number in met}) == 1 for met in pairs(told.made, kept).values())
    assert told.rows.filter(pl.col("wait_ns") > pl.col("dur_ns")).is_empty()


@settings(max_examples=30, deadline=None)
@given(jobs(), st.randoms(use_true_random=False))
def test_the_order_of_ranks_changes_no_pair(
    job: tuple[dict[int, pl.DataFrame], Members, dict[int, list[int]]], chance: object
) -> None:
    comm_op, members, kept = job
    order = sorted(comm_op)
    chance.shuffle(order)  # type: ignore[attr-defined]
    turned = {rank: comm_op[rank] for rank in order}
    here, there = (sorted(map(sorted, pairs(paired(rows, members).made, kept).values())) for rows in (comm_op, turned))
    assert here == there


@settings(max_examples=30, deadline=None)
@given(jobs(), st.integers(-5_000, 5_000))
def test_a_clock_that_is_wrong_makes_no_wait_longer_than_its_operation(
    job: tuple[dict[int, pl.DataFrame], Members, dict[int, list[int]]], microseconds: int
) -> None:
    comm_op, members, _ = job
    moved = {**comm_op, 1: comm_op[1].with_columns(pl.col("start_ns") + microseconds * 1_000)}
    told = paired(moved, members, world=len(moved))
    known = told.rows.drop_nulls("wait_ns")
    assert known.filter((pl.col("wait_ns") > pl.col("dur_ns")) | (pl.col("wait_ns") < 0)).is_empty()
