"""The split of a replayed step on a drawn one: what covers what, who waits, and no rank runs into the next."""

from __future__ import annotations

import numpy as np

from hermes.profiles.measure.path.event_graph import DEVICE, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.step_event_graph import JobStep
from hermes.profiles.whatif.step_timings import timings

# Rank 3:  compute 0-10, arrives at 5, transfers 8-14, copies 12-20.
# Rank 7:  compute 0-3, arrives at 4, transfers 8-14, then nothing.
NODES = [  # rank, component, start, duration
    (3, "compute", 0, 10), (7, "compute", 0, 3), (7, "", 4, 0), (3, "", 5, 0), (3, "comm", 8, 6), (7, "comm", 8, 6),
    (3, "copy", 12, 8),
]  # fmt: skip
ARRIVED = {4: 3, 5: 2}
BEGIN = 1_000


def drawn() -> JobStep:
    def ints(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    count = len(NODES)
    component = np.array([kind for _, kind, _, _ in NODES], dtype=object)
    graph = EventGraph(
        start=ints([BEGIN + start for _, _, start, _ in NODES]),
        dur=ints([dur for _, _, _, dur in NODES]),
        release=ints([0] * count),
        first=ints([0, 0, 0, 0, 0, 1, 2, 2]),
        pred=ints(list(ARRIVED.values())),
        lag=ints([0, 0]),
        kind=ints([DEVICE, DEVICE]),
        task=ints([at if kind else NONE for at, kind in enumerate(component)]),
        thread=ints([NONE] * count),
        rank=ints([rank for rank, _, _, _ in NODES]),
        held_by={},
        sinks={3: 6, 7: 5},
        ends={},
    )
    return JobStep(
        graph=graph,
        component=component,
        name=component,
        type=component,
        bytes=ints([NONE] * count),
        reason=np.zeros((2, 1)),
        begin_ns=BEGIN,
    )


def test_what_runs_at_once_counts_once() -> None:
    job = drawn()
    found = timings(job, job.graph.start, job.graph.dur)
    assert (found.ranks, found.step_ns) == ((3, 7), 20)
    assert found.split(0) == {"compute": 10, "comm": 4, "wait": 0, "copy": 6, "free": 0}
    assert found.split(1) == {"compute": 3, "comm": 6, "wait": 4, "copy": 0, "free": 7}
    assert found.mean() == {"compute": 6.5, "comm": 5, "wait": 2, "copy": 3, "free": 3.5}
    assert found.busiest() == 0


def test_pieces_are_the_time_in_order() -> None:
    job = drawn()
    found = timings(job, job.graph.start, job.graph.dur)
    assert found.pieces(0, 20) == [("compute", 0, 10), ("comm", 10, 14), ("copy", 14, 20)]
    assert found.pieces(1, 20) == [
        ("compute", 0, 3), ("free", 3, 4), ("wait", 4, 8), ("comm", 8, 14), ("free", 14, 20),
    ]  # fmt: skip


def test_other_times_give_another_split() -> None:
    job = drawn()
    shorter = job.graph.dur.copy()
    shorter[[0, 4, 5, 6]] = 0
    found = timings(job, job.graph.start, shorter)
    assert found.step_ns == 12
    assert found.split(0) == {"compute": 0, "comm": 0, "wait": 3, "copy": 0, "free": 9}
