"""The dependency graph of one rank in a window as equations of time: each node starts when the last before it allows.

A node is a device task, or a moment of a host thread: a launch, a hand-over, or the end of a wait. The equations give
back the measured times exactly: what an edge does not explain stays on it as a lag. Backwards they give slack;
forwards, with something changed, a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hermes.analyze.arrivals import Arrival
from hermes.analyze.graph import NONE, Graph, Tasks
from hermes.base.intervals import Ints

FREE = np.iinfo(np.int64).max
"""Slack of what the end of the window does not depend on."""
WORK = ("compute", "comm", "copy")
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Nodes by time. A node starts at `max(release, finish of each predecessor + lag)` and lasts `dur`.

    `pred` and `lag` hold for each node its predecessors; each of them stands before it. `release` is a moment that
    nothing inside moves: what came from outside the window, or the last arrival of another rank. `task` is the device
    task of a node or -1, `thread` its host thread or -1. `sink` is the node whose finish ends the window, or -1.
    """

    start: Ints
    dur: Ints
    release: Ints
    pred: tuple[tuple[int, ...], ...]
    lag: tuple[tuple[int, ...], ...]
    task: Ints
    thread: Ints
    sink: int
    end_ns: int


def net(graph: Graph, arrivals: Mapping[int, Arrival], start_ns: int, end_ns: int) -> Net:
    """The equations of the window `[start_ns, end_ns)`; O(n log n)."""
    tasks = graph.tasks
    sink = sink_of(tasks, end_ns)
    chosen = np.flatnonzero((tasks.end > start_ns) & (tasks.start < end_ns))
    if sink != NONE and sink not in chosen:
        chosen = np.append(chosen, sink)
    points = _points(graph, chosen, start_ns, end_ns)
    start, dur, own_ns = _times(tasks, chosen, arrivals)
    start = np.concatenate([np.array([at for _, at in points], dtype=np.int64), start])
    dur = np.concatenate([np.zeros(len(points), dtype=np.int64), dur])
    # Host moments first among equals: a launch and its task may bear one time.
    order = np.lexsort((start + dur, start))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    task_node = {int(task): int(place[len(points) + row]) for row, task in enumerate(chosen)}
    point_node = {point: int(place[row]) for row, point in enumerate(points)}
    edges = _Edges(start[order], dur[order])
    _host_edges(graph, points, task_node, point_node, edges)
    _task_edges(tasks, chosen, own_ns, task_node, point_node, edges)
    release, pred, lag = edges.solved()
    thread = np.array([thread for thread, _ in points] + [NONE] * len(chosen), dtype=np.int64)[order]
    return Net(
        start=start[order],
        dur=dur[order],
        release=release,
        pred=pred,
        lag=lag,
        task=np.concatenate([np.full(len(points), NONE), chosen])[order],
        thread=thread,
        sink=task_node.get(sink, NONE),
        end_ns=end_ns,
    )


def sink_of(tasks: Tasks, end_ns: int) -> int:
    """The work that is under way at the end of a window, of several the last to end; else the next; -1 without any."""
    work = np.array([kind in WORK for kind in tasks.component], dtype=bool)
    running = np.flatnonzero(work & (tasks.start < end_ns) & (tasks.end >= end_ns))
    if len(running):
        return int(running[np.argmax(tasks.end[running])])
    following = np.flatnonzero(work & (tasks.start >= end_ns))
    return int(following[0]) if len(following) else NONE


def starts(net: Net, dur: Ints) -> Ints:
    """When each node starts if the nodes last `dur`, and all lags and releases stay: with `net.dur`, as measured."""
    found = net.release.tolist()
    lasts = dur.tolist()
    for node, (preds, lags) in enumerate(zip(net.pred, net.lag, strict=True)):
        begin = found[node]
        for pred, lag in zip(preds, lags, strict=True):
            ready = found[pred] + lasts[pred] + lag
            begin = max(begin, ready)
        found[node] = begin
    return np.array(found, dtype=np.int64)


def slack(net: Net) -> Ints:
    """For each node how much later it could finish without the sink finishing later; `FREE` if nothing depends on it.

    The total float of the critical path method (Kelley and Walker, 1959). A task of the window that nothing waits for
    may last until the window ends.
    """
    left = np.full(len(net.start), FREE, dtype=np.int64).tolist()
    start, finish = net.start.tolist(), (net.start + net.dur).tolist()
    tasks = net.task.tolist()
    for node in range(len(start) - 1, -1, -1):
        if node == net.sink:
            left[node] = 0
        elif left[node] == FREE:
            if tasks[node] == NONE:
                continue
            left[node] = max(net.end_ns - finish[node], 0)
        mine = left[node]
        for pred, lag in zip(net.pred[node], net.lag[node], strict=True):
            room = start[node] - finish[pred] - lag + mine
            left[pred] = min(left[pred], room)
    return np.array(left, dtype=np.int64)


class _Edges:
    """Collects what each node waits for, and works out the lags that make the measured times come out."""

    def __init__(self, start: Ints, dur: Ints) -> None:
        self._start = start.tolist()
        self._finish = (start + dur).tolist()
        self._given: list[list[tuple[int, int]]] = [[] for _ in self._start]
        self._release = [_NEVER] * len(self._start)

    def finish(self, node: int) -> int:
        """When a node finished."""
        return int(self._finish[node])

    def start(self, node: int) -> int:
        """When a node started."""
        return int(self._start[node])

    def add(self, pred: int, node: int, lag: int = 0) -> None:
        """`node` starts `lag` after `pred` at the earliest; dropped where the measured times say otherwise."""
        if pred < node and self._finish[pred] + lag <= self._start[node]:
            self._given[node].append((pred, lag))

    def hold(self, node: int, until_ns: int) -> None:
        """`node` starts no earlier than a moment that nothing here moves."""
        self._release[node] = max(self._release[node], min(until_ns, self._start[node]))

    def solved(self) -> tuple[Ints, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Releases, predecessors and lags. What is left between the last arrival and the start is lag on every edge, as
        far as it has room: a launch or a switch takes its time whichever of them was last.
        """
        preds, lags = [], []
        for node, given in enumerate(self._given):
            start = self._start[node]
            arrivals = [self._finish[pred] + lag for pred, lag in given]
            last = max([*arrivals, self._release[node]])
            if last == _NEVER:
                self._release[node] = last = start
            rest = start - last
            preds.append(tuple(pred for pred, _ in given))
            lags.append(
                tuple(
                    lag + min(rest, start - arrival) for (_, lag), arrival in zip(given, arrivals, strict=True)
                )
            )  # fmt: skip
            if self._release[node] != _NEVER:
                self._release[node] += min(rest, start - self._release[node])
        return np.array(self._release, dtype=np.int64), tuple(preds), tuple(lags)


def _times(tasks: Tasks, chosen: Ints, arrivals: Mapping[int, Arrival]) -> tuple[Ints, Ints, dict[int, int]]:
    """Start and duration of the tasks without their waiting, and for those that waited until when.

    The wait for an event has no length of its own; a collective starts when its last rank has arrived.
    """
    start, end = tasks.start[chosen].copy(), tasks.end[chosen]
    until: dict[int, int] = {}
    for row, task in enumerate(chosen.tolist()):
        if tasks.component[task] == "wait":
            start[row] = end[row]
        elif tasks.component[task] == "comm" and (arrival := arrivals.get(int(tasks.comm[task]))):
            start[row] = until[task] = min(max(int(start[row]), arrival.at_ns), int(end[row]))
    return start, end - start, until


def _points(graph: Graph, chosen: Ints, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """The moments of host threads that matter in the window: launches, ends of waits, and what those waited for."""
    tasks = graph.tasks
    found = {
        (thread, at)
        for thread, at in zip(tasks.called_thread[chosen].tolist(), tasks.called_ns[chosen].tolist(), strict=True)
        if thread != NONE and at >= start_ns
    }
    for thread, jumps in enumerate(graph.jumps):
        inside = (jumps.at_ns >= start_ns) & (jumps.at_ns <= end_ns)
        found |= {(thread, at) for at in jumps.at_ns[inside].tolist()}
        handed = inside & (jumps.thread != NONE) & (jumps.since_ns >= start_ns)
        found |= set(zip(jumps.thread[handed].tolist(), jumps.since_ns[handed].tolist(), strict=True))
    return sorted(found)


def _host_edges(
    graph: Graph,
    points: list[tuple[int, int]],
    task_node: Mapping[int, int],
    point_node: Mapping[tuple[int, int], int],
    edges: _Edges,
) -> None:
    """Work of a thread from one moment to the next, and what it waited for between them."""
    waits: dict[tuple[int, int], list[int]] = {}
    for thread, jumps in enumerate(graph.jumps):
        for row, at in enumerate(jumps.at_ns.tolist()):
            waits.setdefault((thread, at), []).append(row)
    for before, point in zip([(NONE, 0), *points], points, strict=False):
        thread, at = point
        node = point_node[point]
        idle = at
        for row in waits.get(point, ()):
            jumps = graph.jumps[thread]
            idle = min(idle, int(jumps.idle_ns[row]))
            source = _source(
                int(jumps.task[row]), (int(jumps.thread[row]), int(jumps.since_ns[row])), task_node, point_node
            )
            if source == NONE:
                edges.hold(node, at)
            else:
                edges.add(source, node, at - max(int(jumps.since_ns[row]), edges.finish(source)))
        if before[0] == thread:
            edges.add(point_node[before], node, max(idle, before[1]) - before[1])


def _source(
    task: int, point: tuple[int, int], task_node: Mapping[int, int], point_node: Mapping[tuple[int, int], int]
) -> int:
    return task_node.get(task, NONE) if task != NONE else point_node.get(point, NONE)


def _task_edges(
    tasks: Tasks,
    chosen: Ints,
    until: Mapping[int, int],
    task_node: Mapping[int, int],
    point_node: Mapping[tuple[int, int], int],
    edges: _Edges,
) -> None:
    """What each task waited for: its stream, its launch, a task of another stream, the other ranks."""
    for task in chosen.tolist():
        node = task_node[task]
        if task in until:
            edges.hold(node, until[task])
        launch = (int(tasks.called_thread[task]), int(tasks.called_ns[task]))
        if launch in point_node:
            edges.add(point_node[launch], node)
        elif launch[0] != NONE:
            # Launched before the window began.
            edges.hold(node, launch[1])
        for other in {int(tasks.before[task]), int(tasks.bind[task])} - {NONE}:
            if other in task_node:
                edges.add(task_node[other], node)
            else:
                edges.hold(node, int(tasks.end[other]))
