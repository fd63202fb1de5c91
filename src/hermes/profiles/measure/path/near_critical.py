"""Finds near-critical work: off the critical path, with little slack, by stream, group or thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hermes.base.intervals import Intervals, union_of_intervals
from hermes.model.path_measures import NearCritical
from hermes.profiles.measure.path.event_graph import FREE, WORK, WORKED, EventGraph
from hermes.profiles.measure.path.event_slack import slack
from hermes.profiles.measure.path.graph import Graph
from hermes.profiles.measure.path.path import Piece
from hermes.profiles.measure.path.previous_tasks import NONE

NEAR = 0.1
"""The share of the window up to which slack counts as little: a second path within 10 % is reported with the first."""
_NAME = {"compute": "compute", "comm": "communication", "copy": "copy"}
# A piece of work: (component, where), its slack in ns, and its time in ns.
_Piece = tuple[tuple[str, str], int, int]


def rivals(events: EventGraph, graph: Graph, pieces: Sequence[Piece], start_ns: int) -> tuple[NearCritical, ...]:
    """The work close to the critical path `pieces` of one rank, in the window from `start_ns` on; longest first."""
    left = slack(events)
    (end_ns,) = events.ends.values()
    limit = int(NEAR * (end_ns - start_ns))
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for key, room, ns in (
        *_device(events, left, graph, pieces, (start_ns, end_ns)),
        *_host(events, left, graph, pieces),
    ):
        if ns > 0 and room <= limit:
            found.setdefault(key, []).append((room, ns))
    rows = [
        NearCritical(
            component=component,
            where=where,
            tasks=len(own),
            ns=sum(ns for _, ns in own),
            slack_ns=_median(own),
            least_ns=min(room for room, _ in own),
        )
        for (component, where), own in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.ns, row.slack_ns, row.component, row.where)))


def _median(own: Sequence[tuple[int, int]]) -> int:
    """The slack that half of the time does not exceed, in ns."""
    half = sum(ns for _, ns in own) / 2
    for room, ns in sorted(own):
        half -= ns
        if half <= 0:
            return room
    return 0


def _device(
    events: EventGraph, left: np.ndarray, graph: Graph, pieces: Sequence[Piece], window: tuple[int, int]
) -> Iterator[_Piece]:
    """Device tasks off the path, with the part inside the window."""
    on_path = {piece.task for piece in pieces}
    tasks = graph.tasks
    for node in np.flatnonzero((events.task != NONE) & (left != FREE)).tolist():
        task = int(events.task[node])
        if task not in on_path and tasks.component[task] in WORK:
            begin = max(int(events.start[node]), window[0])
            end = min(int(events.start[node] + events.dur[node]), window[1])
            yield (_NAME[tasks.component[task]], tasks.line[task]), int(left[node]), end - begin


def _host(events: EventGraph, left: np.ndarray, graph: Graph, pieces: Sequence[Piece]) -> Iterator[_Piece]:
    """Work of host threads between two moments, off the path."""
    target, worked = events.target, events.kind
    for thread, (_, tid) in enumerate(graph.threads):
        mine = (worked == WORKED) & (events.thread[target] == thread) & (left[target] != FREE)
        begin, lag = events.start[events.pred[mine]], events.lag[mine]
        taken = _along(pieces, thread)
        off = lag - (taken.lasted(begin + lag) - taken.lasted(begin))
        for room, ns in zip(left[target[mine]].tolist(), off.tolist(), strict=True):
            yield ("host", f"thread {tid}"), room, ns


def _along(pieces: Sequence[Piece], thread: int) -> Intervals:
    own = [piece for piece in pieces if piece.thread == thread and piece.kind == "host"]
    return union_of_intervals(
        np.array([piece.start_ns for piece in own], dtype=np.int64),
        np.array([piece.end_ns for piece in own], dtype=np.int64),
    )
