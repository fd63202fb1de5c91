"""The equations of a window: they give the measured times back, and slack is what a delay may take up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.path.build_event_graph import events
from hermes.profiles.measure.path.event_graph import FREE, EventGraph, starts
from hermes.profiles.measure.path.event_slack import slack
from hermes.profiles.measure.path.graph import Graph, build
from hermes.profiles.measure.path.path import RankScene, walk
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes_testing import draw

NOBODY: Mapping[int, Arrival] = {}


def graph(text: str) -> Graph:
    tables = draw(text)
    # Each task has a name of its own, and so a kernel of its own.
    return build("ascend", tables["kernel"], tables["comm_op"], tables["host_op"], tables["flow"])


def slacks(text: str, end: int = 20, arrivals: Mapping[int, Arrival] = NOBODY) -> str:
    """Stream and slack in microseconds of each task, by start; `free` where nothing depends on it."""
    built = graph(text)
    found = events(built, arrivals, 0, end * 1_000)
    assert starts(found).tolist() == found.start.tolist()
    left = slack(found)
    rows = sorted((int(found.task[node]), int(left[node])) for node in np.flatnonzero(found.task != NONE))
    return " ".join(
        f"{built.tasks.line[task].removeprefix('stream ')}:{'free' if ns == FREE else ns // 1_000}" for task, ns in rows
    )


def test_tasks_that_follow_each_other_to_the_end_have_none() -> None:
    assert slacks("rank0.compute  AAAAABBBBBCCCCCDDDDD") == "1:0 1:0 1:0 1:0"


def test_work_that_something_longer_hides_has_the_rest_of_it() -> None:
    found = slacks("""
        rank0.compute@1  AAAAAAAAAAAAAAAAAAAA
        rank0.comm@2     ####................
    """)
    assert found == "2:16 1:0"


def test_a_task_that_another_stream_waits_for_has_the_time_until_it_would_hold_it_up() -> None:
    found = slacks("""
        rank0.call       ABC.................
        rank0.compute@1  ..AAAAAAAAAA..CCCCCC
        rank0.compute@2  ...BBB..............
        rank0.wait@1     ............##......
    """)
    # C follows its stream and the wait, which A ended at 12 and B long before.
    assert found.split()[0] == "1:0"
    assert found.split()[1] == "2:14"


def test_a_host_that_runs_ahead_has_the_lead_as_slack() -> None:
    built = graph("""
        rank0.call     AABB................
        rank0.compute  ..AAAAAAAAABBBBBBBBB
    """)
    found = events(built, NOBODY, 0, 20_000)
    left = slack(found)
    (second,) = [int(left[node]) for node in np.flatnonzero(found.thread != NONE) if found.start[node] == 4_000]
    # Its task waited until 11 for the one before it.
    assert second == 7_000


def test_what_was_done_before_a_peer_arrived_has_the_wait_as_slack() -> None:
    found = slacks(
        """
        rank0.compute  AAAA................
        rank0.comm     ....CCCCCCCCCCCCCCCC
        """,
        arrivals={0: Arrival(at_ns=16_000, rank=1, comm_id=None)},
    )
    assert found.split()[0] == "1:12"


def test_a_blocking_call_passes_on_the_slack_of_what_the_host_did_next() -> None:
    found = slacks("""
        rank0.call     AA...............BB.
        rank0.sync     ..############......
        rank0.compute  ..AAAAAAAAA.......BB
    """)
    assert found == "1:0 1:0"


LINE = st.text(alphabet="ABC.", min_size=24, max_size=24)


@st.composite
def nets(drawn: st.DrawFn) -> tuple[EventGraph, Graph, int, int]:
    one, two, calls, waits = drawn(LINE), drawn(LINE), drawn(LINE), drawn(LINE)
    start, end = drawn(st.integers(0, 10)) * 1_000, drawn(st.integers(11, 24)) * 1_000
    text = "\n".join(
        (
            f"rank0.compute@1  {one}",
            f"rank0.comm@2  {two}",
            f"rank0.call  {calls}",
            f"rank0.sync@7  {waits.replace('A', '.')}",
            f"rank0.wait@3  {waits}",
        )
    )
    built = graph(text)
    return events(built, NOBODY, start, end), built, start, end


@given(nets())
def test_the_equations_give_back_the_measured_times(case: tuple[EventGraph, Graph, int, int]) -> None:
    found, *_ = case
    assert starts(found).tolist() == found.start.tolist()
    assert (found.pred < found.target).all()


@given(nets(), st.integers(0, 10**6))
def test_slack_is_exactly_what_a_delay_may_take_up(case: tuple[EventGraph, Graph, int, int], pick: int) -> None:
    found, *_ = case
    left = slack(found)
    chosen = [
        node
        for node in np.flatnonzero(left != FREE).tolist()
        if found.task[node] != NONE and node not in found.sinks.values()
    ]
    if not found.sinks or not chosen:
        return
    sink = found.sinks[0]
    node = chosen[pick % len(chosen)]
    longer = found.dur.copy()
    longer[node] += left[node]
    moved = starts(found, dur=longer)
    assert moved[sink] + longer[sink] == found.finish[sink]
    # A task that nothing waits for may last until the window ends; else a nanosecond more is too much.
    longer[node] += 1
    moved = starts(found, dur=longer)
    late = (moved + longer)[(found.task != NONE)].max()
    assert moved[sink] + longer[sink] > found.finish[sink] or late > found.ends[0]


@given(nets())
def test_the_path_has_no_slack(case: tuple[EventGraph, Graph, int, int]) -> None:
    found, built, start, end = case
    left = slack(found)
    pieces = walk(RankScene(rank=0, graph=built, arrivals=NOBODY), start, end)
    # Behind a pause that nothing explains, and before it, the chain is a guess.
    tail = []
    for piece in reversed(pieces):
        if piece.kind == "unexplained":
            break
        tail.append(piece.task)
    node_of = {int(task): node for node, task in enumerate(found.task.tolist()) if task != NONE}
    on_path = [node_of[task] for task in tail if task in node_of and built.tasks.component[task] in ("compute", "comm")]
    if found.sinks:
        assert all(left[node] <= 0 for node in on_path)
