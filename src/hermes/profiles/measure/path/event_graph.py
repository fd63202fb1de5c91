"""The dependency graph of a window as equations of time: each node starts when the last before it allows.

A node is a device task, the arrival at a collective, the meeting of its ranks, or a moment of a host thread: a launch,
a hand-over, or the end of a wait. The equations give back the measured times exactly: what an edge does not explain is
its lag. Backwards they give slack; forwards, with something changed, a replay.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hermes.base.intervals import Ints
from hermes.profiles.measure.communication.arrivals import Arrival
from hermes.profiles.measure.path.graph import NONE, Graph, Tasks

FREE = np.iinfo(np.int64).max
"""Slack of what the end of the window does not depend on."""


WORK = ("compute", "comm", "copy")
DEVICE, WORKED, WAITED, LAUNCHED, MET, OUTSIDE = range(6)
"""Kinds of edges: task after task, host work, end of a wait, launch, meeting of ranks, work of a rank not collected."""
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGraph:
    """Nodes by time, of one rank or of several on one clock.

    A node starts at `max(release, finish of each predecessor + lag)` and lasts `dur`. The edges into node `n` are
    `first[n]` to `first[n + 1]` of `pred`, `lag` and `kind`; each predecessor stands before its node. `release` is a
    moment that nothing inside moves. `held_by` holds, for the nodes that waited for a rank that was not collected,
    which one: by their release, or by an edge of kind `OUTSIDE` from the collective before. `task` is the device task
    of a node or -1, `thread` its host thread or -1, `rank` whose it is. `sinks` holds by rank the node whose finish
    ends its window, `ends` the window's end.
    """

    start: Ints
    dur: Ints
    release: Ints
    first: Ints
    pred: Ints
    lag: Ints
    kind: Ints
    task: Ints
    thread: Ints
    rank: Ints
    held_by: Mapping[int, int]
    sinks: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def finish(self) -> Ints:
        """When each node finishes."""
        return self.start + self.dur

    @property
    def target(self) -> Ints:
        """The node that each edge leads to."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One rank of the events: its graph, who held its collectives up, and its window, on its own clock.

    `offset_ns` brings its times to the common clock.
    """

    rank: int
    graph: Graph
    arrivals: Mapping[int, Arrival]
    start_ns: int
    end_ns: int
    offset_ns: int = 0


def events(graph: Graph, arrivals: Mapping[int, Arrival], start_ns: int, end_ns: int) -> EventGraph:
    """The equations of one rank in the window `[start_ns, end_ns)`; other ranks arrive when they did. O(n log n)."""
    return joined([Part(rank=0, graph=graph, arrivals=arrivals, start_ns=start_ns, end_ns=end_ns)])


def joined(parts: Sequence[Part], meetings: Sequence[Mapping[int, int]] = ()) -> EventGraph:
    """The equations of several ranks; `meetings` are their common collectives, by rank the row of `comm_op`.

    A meeting is over when the last of its ranks has arrived; what follows is transfer, and each rank's own.
    """
    builder = _Builder()
    ranks = [_RankNodes(part, builder) for part in parts]
    arrivals = [rank.arrive() for rank in ranks]
    met: dict[tuple[int, int], int] = {}
    for meeting in meetings:
        members = {key: seen[key] for key in meeting.items() for seen in arrivals if key in seen}
        if len(members) > 1:
            node = _meet(builder, list(members.values()))
            met |= dict.fromkeys(members, node)
    for rank in ranks:
        rank.place(met)
    sinks = {rank.part.rank: rank.connect(met) for rank in ranks}
    return builder.events(sinks, {part.rank: part.end_ns + part.offset_ns for part in parts})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrived:
    """A rank at a collective, on the common clock: its arrival, its end, and when the last from outside came."""

    node: int
    end_ns: int
    outside_ns: int


def _meet(builder: _Builder, members: Sequence[_Arrived]) -> int:
    """The node at which the last member has arrived; clocks that are off do not let it be after an end."""
    last = max(max(builder.start[member.node], member.outside_ns) for member in members)
    node = builder.node(NONE, min([last, *(member.end_ns for member in members)]), 0)
    for member in members:
        builder.edge(member.node, node, MET)
    return node


def sink_of(tasks: Tasks, end_ns: int) -> int:
    """The work that is under way at the end of a window, of several the last to end; else the next; -1 without any."""
    work = np.array([kind in WORK for kind in tasks.component], dtype=bool)
    running = np.flatnonzero(work & (tasks.start < end_ns) & (tasks.end >= end_ns))
    if len(running):
        return int(running[np.argmax(tasks.end[running])])
    following = np.flatnonzero(work & (tasks.start >= end_ns))
    return int(following[0]) if len(following) else NONE


def starts(
    events: EventGraph, *, dur: Ints | None = None, lag: Ints | None = None, release: Ints | None = None
) -> Ints:
    """When each node starts with other durations, lags or releases; with none given, as measured."""
    found = (events.release if release is None else release).tolist()
    lasts = (events.dur if dur is None else dur).tolist()
    lags = (events.lag if lag is None else lag).tolist()
    first, preds = events.first.tolist(), events.pred.tolist()
    for node in range(len(found)):
        begin = found[node]
        for edge in range(first[node], first[node + 1]):
            pred = preds[edge]
            ready = found[pred] + lasts[pred] + lags[edge]
            if ready > begin:
                begin = ready
        found[node] = begin
    return np.array(found, dtype=np.int64)


class _Builder:
    """Collects nodes and what each waits for, and works out the lags that make the measured times come out."""

    def __init__(self) -> None:
        self.start: list[int] = []
        self.dur: list[int] = []
        self.task: list[int] = []
        self.thread: list[int] = []
        self.rank: list[int] = []
        self._edges: list[tuple[int, int, int, int]] = []
        self._release: dict[int, int] = {}
        self._held_by: dict[int, int] = {}

    def node(self, rank: int, start: int, dur: int, *, task: int = NONE, thread: int = NONE) -> int:
        """A further node; returns its number here."""
        for column, value in (
            (self.start, start), (self.dur, dur), (self.task, task), (self.thread, thread), (self.rank, rank)
        ):  # fmt: skip
            column.append(value)
        return len(self.start) - 1

    def finish(self, node: int) -> int:
        """When a node finishes."""
        return self.start[node] + self.dur[node]

    def edge(self, pred: int, node: int, kind: int, lag: int = 0, *, peer: int | None = None) -> None:
        """`node` starts `lag` after `pred` at the earliest; dropped where the measured times say otherwise.

        `peer` is the rank that was waited for, if it was not collected.
        """
        lag = min(lag, self.start[node] - self.finish(pred)) if peer is not None else lag
        if self.finish(pred) + lag <= self.start[node]:
            self._edges.append((node, pred, lag, kind))
            if peer is not None:
                self._held_by[node] = peer

    def hold(self, node: int, until_ns: int, rank: int | None = None) -> None:
        """`node` starts no earlier than a moment that nothing here moves; `rank` is who was waited for."""
        self._release[node] = max(self._release.get(node, _NEVER), min(until_ns, self.start[node]))
        if rank is not None:
            self._held_by[node] = rank

    def events(self, sinks: Mapping[int, int], ends: Mapping[int, int]) -> EventGraph:
        """The nodes by time, and the edges by node."""
        start, dur = np.array(self.start, dtype=np.int64), np.array(self.dur, dtype=np.int64)
        # Among equals in the order of their making, which is that of what waits for what.
        order = np.lexsort((np.arange(len(start)), start + dur, start))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        edges = np.array(self._edges, dtype=np.int64).reshape(-1, 4)
        edges[:, :2] = place[edges[:, :2]]
        edges = edges[edges[:, 1] < edges[:, 0]]
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        release = np.full(len(start), _NEVER, dtype=np.int64)
        for node, until in self._release.items():
            release[place[node]] = until
        start, dur = start[order], dur[order]
        lag, release = _residual(start, dur, edges, release)
        return EventGraph(
            start=start,
            dur=dur,
            release=release,
            first=np.searchsorted(edges[:, 0], np.arange(len(start) + 1)),
            pred=edges[:, 1].copy(),
            lag=lag,
            kind=edges[:, 3].copy(),
            task=np.array(self.task, dtype=np.int64)[order],
            thread=np.array(self.thread, dtype=np.int64)[order],
            rank=np.array(self.rank, dtype=np.int64)[order],
            held_by={int(place[node]): rank for node, rank in self._held_by.items()},
            sinks={rank: int(place[node]) for rank, node in sinks.items() if node != NONE},
            ends=dict(ends),
        )


def _residual(start: Ints, dur: Ints, edges: NDArray[np.int64], release: Ints) -> tuple[Ints, Ints]:
    """Lags and releases that give the measured starts.

    What is left between the last arrival and the start is lag on every edge, as far as it has room: a launch or a
    switch takes its time whichever of them was last.
    """
    node, pred, lag = edges[:, 0], edges[:, 1], edges[:, 2]
    ready = start[pred] + dur[pred] + lag
    last = release.copy()
    np.maximum.at(last, node, ready)
    alone = last == _NEVER
    release = np.where(alone, start, release)
    rest = np.where(alone, 0, start - last)
    held = release != _NEVER
    release = np.where(held, release + np.minimum(rest, start - np.where(held, release, start)), release)
    return lag + np.minimum(rest[node], start[node] - ready), release


class _RankNodes:
    """Puts the nodes and edges of one rank into a builder: arrivals first, then tasks, then what waits for what."""

    def __init__(self, part: Part, builder: _Builder) -> None:
        self.part = part
        self._tasks = tasks = part.graph.tasks
        self._builder = builder
        self._of_task: dict[int, int] = {}
        self._arrival: dict[int, int] = {}
        self._of_point: dict[tuple[int, int], int] = {}
        self._ended: list[tuple[int, int]] = []
        self._points_in_order: list[tuple[int, int]] = []
        self._sink = sink_of(tasks, part.end_ns)
        self._chosen = np.flatnonzero((tasks.end > part.start_ns) & (tasks.start < part.end_ns)).tolist()
        if self._sink != NONE and self._sink not in self._chosen:
            self._chosen.append(self._sink)

    def arrive(self) -> dict[tuple[int, int], _Arrived]:
        """Place the moments of host threads and the arrivals at collectives; returns these by rank and operation."""
        part, tasks, builder = self.part, self._tasks, self._builder
        self._points_in_order = self._points(self._chosen)
        for thread, at in self._points_in_order:
            self._of_point[(thread, at)] = builder.node(part.rank, at + part.offset_ns, 0, thread=thread)
        found = {}
        for task in self._chosen:
            if tasks.component[task] != "comm":
                continue
            comm = int(tasks.comm[task])
            arrival = part.arrivals.get(comm)
            self._arrival[task] = builder.node(part.rank, int(tasks.start[task]) + part.offset_ns, 0)
            found[(part.rank, comm)] = _Arrived(
                node=self._arrival[task],
                end_ns=int(tasks.end[task]) + part.offset_ns,
                outside_ns=_NEVER if arrival is None or arrival.comm_id is not None else arrival.at_ns + part.offset_ns,
            )
        return found

    def place(self, met: Mapping[tuple[int, int], int]) -> None:
        """Place the tasks without their waiting: the wait for an event has no length, a transfer begins with the last
        rank's arrival.
        """
        tasks, part, builder = self._tasks, self.part, self._builder
        for task in self._chosen:
            start, end = int(tasks.start[task]) + part.offset_ns, int(tasks.end[task]) + part.offset_ns
            if tasks.component[task] == "wait":
                start = end
            elif task in self._arrival:
                start = min(max(start, self._begins(int(tasks.comm[task]), met)), end)
            self._of_task[task] = builder.node(part.rank, start, end - start, task=task)

    def _begins(self, comm: int, met: Mapping[tuple[int, int], int]) -> int:
        """When the last rank had arrived at an operation, as far as that is known."""
        if (self.part.rank, comm) in met:
            return self._builder.start[met[(self.part.rank, comm)]]
        arrival = self.part.arrivals.get(comm)
        return _NEVER if arrival is None else arrival.at_ns + self.part.offset_ns

    def connect(self, met: Mapping[tuple[int, int], int]) -> int:
        """What waits for what; returns the sink, or -1."""
        self._host_edges(self._points_in_order)
        self._ended = sorted(
            (self._builder.finish(node), node) for node in map(self._of_task.get, self._arrival) if node
        )
        for task in self._chosen:
            if task in self._arrival:
                self._comm_edges(task, met)
            self._task_edges(task)
        return self._of_task.get(self._sink, NONE)

    def _comm_edges(self, task: int, met: Mapping[tuple[int, int], int]) -> None:
        """A transfer waits for its own rank and for the last."""
        comm = int(self._tasks.comm[task])
        node, builder = self._of_task[task], self._builder
        builder.edge(self._arrival[task], node, DEVICE)
        arrival = self.part.arrivals.get(comm)
        meeting = met.get((self.part.rank, comm))
        if meeting is not None:
            builder.edge(meeting, node, MET)
        if arrival is not None and (meeting is None or arrival.comm_id is None):
            self._wait_for(arrival, node if meeting is None else meeting)

    def _wait_for(self, arrival: Arrival, node: int) -> None:
        """A rank that is not here arrives as long after the collective before as it did: it waited for that too."""
        at = arrival.at_ns + self.part.offset_ns
        place = bisect_right(self._ended, (at, FREE)) - 1
        if place < 0:
            self._builder.hold(node, at, arrival.rank)
        else:
            finish, before = self._ended[place]
            self._builder.edge(before, node, OUTSIDE, at - finish, peer=arrival.rank)

    def _points(self, chosen: Sequence[int]) -> list[tuple[int, int]]:
        """The moments of host threads that matter: launches, ends of waits, and what those waited for."""
        tasks, start_ns, end_ns = self._tasks, self.part.start_ns, self.part.end_ns
        found = {
            (thread, at)
            for thread, at in zip(tasks.called_thread[chosen].tolist(), tasks.called_ns[chosen].tolist(), strict=True)
            if thread != NONE and at >= start_ns
        }
        for thread, jumps in enumerate(self.part.graph.jumps):
            inside = (jumps.at_ns >= start_ns) & (jumps.at_ns <= end_ns)
            found |= {(thread, at) for at in jumps.at_ns[inside].tolist()}
            handed = inside & (jumps.thread != NONE) & (jumps.since_ns >= start_ns)
            found |= set(zip(jumps.thread[handed].tolist(), jumps.since_ns[handed].tolist(), strict=True))
        # What a thread does from the beginning on is work like any other.
        found |= {(thread, start_ns) for thread in {thread for thread, _ in found}}
        # By time over all threads: of two moments at one time the one that hands over may be on either.
        return sorted(found, key=lambda point: (point[1], point[0]))

    def _host_edges(self, points: Sequence[tuple[int, int]]) -> None:
        """Work of a thread from one moment to the next, and what it waited for between them."""
        offset = self.part.offset_ns
        waits: dict[tuple[int, int], list[int]] = {}
        for thread, jumps in enumerate(self.part.graph.jumps):
            for row, at in enumerate(jumps.at_ns.tolist()):
                waits.setdefault((thread, at), []).append(row)
        last: dict[int, int] = {}
        for thread, at in points:
            node = self._of_point[(thread, at)]
            idle = at
            for row in waits.get((thread, at), ()):
                jumps = self.part.graph.jumps[thread]
                idle = min(idle, int(jumps.idle_ns[row]))
                since = int(jumps.since_ns[row])
                source = self._source(int(jumps.task[row]), int(jumps.thread[row]), since)
                if source == NONE:
                    self._builder.hold(node, at + offset)
                else:
                    after = max(since + offset, self._builder.finish(source))
                    self._builder.edge(source, node, WAITED, at + offset - after)
            if thread in last:
                before = last[thread]
                self._builder.edge(self._of_point[(thread, before)], node, WORKED, max(idle, before) - before)
            last[thread] = at

    def _source(self, task: int, thread: int, since: int) -> int:
        return self._of_task.get(task, NONE) if task != NONE else self._of_point.get((thread, since), NONE)

    def _task_edges(self, task: int) -> None:
        """A task waits for its stream, for its launch, and for a task of another stream."""
        tasks, builder, offset = self._tasks, self._builder, self.part.offset_ns
        node = self._arrival.get(task, self._of_task[task])
        launch = (int(tasks.called_thread[task]), int(tasks.called_ns[task]))
        if launch in self._of_point:
            builder.edge(self._of_point[launch], node, LAUNCHED)
        elif launch[0] != NONE:
            # Launched before the window began.
            builder.hold(node, launch[1] + offset)
        for other in {int(tasks.before[task]), int(tasks.bind[task])} - {NONE}:
            if other in self._of_task:
                builder.edge(self._of_task[other], node, DEVICE)
            else:
                builder.hold(node, int(tasks.end[other]) + offset)
