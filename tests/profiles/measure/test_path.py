"""The critical path of drawn steps: it covers the window, and each piece is what arrived last."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.path.graph import Graph, build
from hermes.profiles.measure.path.path import Piece, RankScene, covered, walk, walk_across
from hermes_testing import draw

NOBODY: Mapping[int, Arrival] = {}
Drawn = dict[str, pl.DataFrame]


def graph(tables: Drawn, rank: int = 0, vendor: str = "ascend") -> Graph:
    own = {name: rows.filter(pl.col("rank") == rank) for name, rows in tables.items()}
    return build(vendor, own["kernel"], own["comm_op"], own["host_op"], own["flow"])


def scene(tables: Drawn, rank: int = 0, arrivals: Mapping[int, Arrival] = NOBODY) -> RankScene:
    return RankScene(rank=rank, graph=graph(tables, rank), arrivals=arrivals)


def drawn(pieces: tuple[Piece, ...]) -> str:
    """The path as text: kind and length in microseconds of its pieces."""
    return " ".join(f"{piece.kind}:{(piece.end_ns - piece.start_ns) // 1_000}" for piece in pieces)


def path(text: str, end: int = 20, arrivals: Mapping[int, Arrival] = NOBODY) -> str:
    pieces = walk(scene(draw(text), arrivals=arrivals), 0, end * 1_000)
    assert covered(pieces) == end * 1_000
    return drawn(pieces)


def test_tasks_of_a_stream_follow_each_other() -> None:
    assert path("rank0.compute  AAAAABBBBBCCCCCDDDDD") == "compute:5 compute:5 compute:5 compute:5"


def test_a_task_that_its_launch_held_up_leads_to_the_host() -> None:
    found = path("""
        rank0.call     ....AAAAAA..........
        rank0.compute  ...........AAAAAAAAA
    """)
    assert found == "host:10 launch:1 compute:9"


def test_a_task_that_was_launched_early_leads_to_the_task_before_it() -> None:
    found = path("""
        rank0.call     AABB................
        rank0.compute  ..AAAAAAAAABBBBBBBBB
    """)
    assert found == "host:2 compute:9 compute:9"


def test_communication_under_way_beside_compute_does_not_hide_that_the_host_is_far_ahead() -> None:
    # The transfer goes on behind the end of the step; its stream was idle, so it began as soon as it was launched.
    found = path(
        """
        rank0.call       ABC.................D......
        rank0.compute@1  .AAAAAAABBBBBBBCCCCCCCCC...
        rank0.comm@2     .....................DDDDD.
    """,
        end=22,
    )
    assert found == "host:1 compute:7 compute:7 compute:7"


def test_a_blocking_call_leads_to_the_task_that_it_waited_for() -> None:
    found = path("""
        rank0.call     AA...............BB.
        rank0.sync     ..############......
        rank0.compute  ..AAAAAAAAA.......BB
    """)
    # What the call took after the task had ended is the host's own.
    assert found == "host:2 compute:9 host:7 compute:2"


def test_a_task_of_another_stream_that_ended_just_before_is_what_was_waited_for() -> None:
    found = path("""
        rank0.call       ABC.................
        rank0.compute@1  ..AAAA........CCCCCC
        rank0.compute@2  ......BBBBBBBB......
    """)
    assert found == "host:1 launch:1 compute:4 compute:8 compute:6"


def test_a_wait_on_a_stream_belongs_to_whom_it_waited_for() -> None:
    found = path("""
        rank0.compute@1  AAAAAAAAAAAA........
        rank0.wait@2     ..##########........
        rank0.compute@2  ............BBBBBBBB
    """)
    assert found == "compute:12 compute:8"


def test_work_that_another_thread_did_is_followed_there() -> None:
    found = path("""
        rank0.host@1   ###...............##
        rank0.host@2   ...###############..
        rank0.compute  ....................
    """, end=20)  # fmt: skip
    assert found == "host:20"
    long = draw(
        """
        rank0.host@1   ###...............##
        rank0.host@2   ...###############..
        """,
        scale_ns=10_000,
    )
    pieces = walk(scene(long), 0, 200_000)
    assert [piece.thread for piece in pieces] == [0, 1, 0]


def test_a_collective_is_transfer_only_from_the_last_arrival_on() -> None:
    found = path("rank0.comm  ####################", arrivals={0: Arrival(at_ns=15_000, rank=3, comm_id=None)})
    assert found == "wait:15 comm:5"


def test_what_nothing_explains_is_said() -> None:
    assert path("rank0.compute  ..........##########") == "unexplained:10 compute:10"


@pytest.mark.parametrize(
    ("vendor", "gap"), [("nvidia", "gap"), ("ascend", "unexplained")], ids=["events are hidden", "events are tasks"]
)
def test_the_events_of_collectives_between_two_tasks_take_their_time(vendor: str, gap: str) -> None:
    # 32 us from A to B, between whose launches three collectives were launched.
    pieces = walk(
        RankScene(
            rank=0,
            graph=graph(
                draw(f"""
                    rank0.call     ACDEB{"." * 44}
                    rank0.compute  .{"A" * 14}{"." * 32}BB
                    rank0.comm     ..C.D.E{"." * 42}
                """),
                vendor=vendor,
            ),
            arrivals={},
        ),
        0,
        49_000,
    )
    assert drawn(pieces) == f"host:1 compute:14 {gap}:32 compute:2"


def test_a_path_ends_at_the_start_of_its_window() -> None:
    tables = draw("rank0.compute  AAAAAAAAAABBBBBBBBBB")
    assert drawn(walk(scene(tables), 5_000, 15_000)) == "compute:5 compute:5"


def test_without_a_task_at_the_end_the_next_one_tells_what_was_waited_for() -> None:
    tables = draw("""
        rank0.call     AA............BBBB......
        rank0.compute  ..AAAA............######
    """)
    tables["kernel"] = tables["kernel"].with_columns(pl.lit("compute").alias("component"))
    # Nameless, the last task has no launch: it is followed on its stream.
    assert drawn(walk(scene(tables), 0, 10_000)) == "host:2 compute:4 gap:4"


def test_across_ranks_a_wait_becomes_the_work_of_the_one_that_was_waited_for() -> None:
    tables = draw("""
        rank0.compute  AAAA................
        rank0.comm     ....CCCCCCCCCCCCCCCC
        rank1.compute  AAAAAAAAAAAAAAAA....
        rank1.comm     ................CCCC
    """)
    arrivals = {0: {0: Arrival(at_ns=16_000, rank=1, comm_id=0)}, 1: NOBODY}
    scenes = {rank: scene(tables, rank, arrivals[rank]) for rank in (0, 1)}
    pieces = walk_across(scenes.__getitem__, 0, 0, 20_000)
    assert [(piece.rank, piece.kind) for piece in pieces] == [(1, "compute"), (0, "comm")]
    assert covered(pieces) == 20_000


def test_two_ranks_that_wait_for_each_other_do_not_go_round_for_ever() -> None:
    tables = draw("""
        rank0.comm     CCCCCCCCDDDDDDDD
        rank1.comm     CCCCCCCCDDDDDDDD
    """)
    arrivals = {
        rank: {comm: Arrival(at_ns=4_000 + 8_000 * comm, rank=1 - rank, comm_id=comm) for comm in (0, 1)}
        for rank in (0, 1)
    }
    scenes = {rank: scene(tables, rank, arrivals[rank]) for rank in (0, 1)}
    assert covered(walk_across(scenes.__getitem__, 0, 0, 16_000)) == 16_000


LINE = st.text(alphabet="ABC.", min_size=24, max_size=24)


@given(LINE, LINE, LINE, LINE, st.integers(0, 10), st.integers(11, 24))
def test_any_path_covers_its_window(one: str, two: str, calls: str, waits: str, start: int, end: int) -> None:
    text = "\n".join(
        (
            f"rank0.compute@1  {one}",
            f"rank0.comm@2  {two}",
            f"rank0.call  {calls}",
            f"rank0.sync@7  {waits.replace('A', '.')}",
            f"rank0.wait@1  {waits}",
        )
    )
    pieces = walk(scene(draw(text)), start * 1_000, end * 1_000)
    assert covered(pieces) == (end - start) * 1_000
    assert all(piece.start_ns < piece.end_ns for piece in pieces)
