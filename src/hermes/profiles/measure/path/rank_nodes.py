"""Adds the nodes and edges of one rank to an event graph: arrivals, then tasks, then their dependencies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.path.event_builder import Builder
from hermes.profiles.measure.path.event_graph import (
    DEVICE,
    FREE,
    LAUNCHED,
    MET,
    NEVER,
    ORDER,
    OUTSIDE,
    WAITED,
    WORK,
    WORKED,
)
from hermes.profiles.measure.path.graph import Graph, HostJumps
from hermes.profiles.measure.path.hidden_events import computed_before
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.tasks import Tasks, under_way

_LONG_NS, _NEARER = 1_000_000, 10
"""A task that begins 1 ms or more after all its known causes waited for something that was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDone:
    """The point at which a rank is done with a step and all steps before: its device has finished them.

    `step` is the number of the step, None if no step was marked; `end_ns` is its end on the rank's own clock.
    """

    step: int | None
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPart:
    """One rank of an event graph: its dependency graph, last arrivals at its collectives, and window on its own clock.

    `offset_ns` brings its times to the common clock. `done` are the ends of the last two steps, or of the last step if
    the window holds only that. Without any, the window ends with the work under way at its end. `fused` are the
    kernels, by `kernel_id`, in which ranks meet.
    """

    rank: int
    graph: Graph
    arrivals: Mapping[int, Arrival]
    start_ns: int
    end_ns: int
    offset_ns: int = 0
    done: tuple[RankDone, ...] = ()
    fused: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedRank:
    """A rank's arrival at a collective, on the common clock: its node, its end, and the last arrival from outside."""

    node: int
    end_ns: int
    outside_ns: int


def of_kernel(kernel_id: int) -> int:
    """The number of a fused kernel among the operations in which ranks meet; rows of `comm_op` count from 0."""
    return NONE - 1 - kernel_id


def sink_of(tasks: Tasks, end_ns: int) -> int:
    """The work under way at the end of a window (`tasks.under_way`); else the next work; -1 without any."""
    running = under_way(tasks, end_ns)
    if running != NONE:
        return running
    work = np.array([kind in WORK for kind in tasks.component], dtype=bool)
    following = np.flatnonzero(work & (tasks.start >= end_ns))
    return int(following[0]) if len(following) else NONE


class RankNodes:
    """Puts the nodes and edges of one rank into a builder: arrivals first, then tasks, then their dependencies."""

    def __init__(self, part: RankPart, builder: Builder) -> None:
        self.part = part
        self._tasks = tasks = part.graph.tasks
        self._builder = builder
        self._of_task: dict[int, int] = {}
        self._arrival: dict[int, int] = {}
        self._of_point: dict[tuple[int, int], int] = {}
        self._ended: list[tuple[int, int]] = []
        self._every_end: list[tuple[int, int]] = []
        self._points_in_order: list[tuple[int, int]] = []
        self._sink = sink_of(tasks, part.end_ns)
        inside = tasks.start < part.end_ns
        if part.done and part.done[-1].step is not None:
            # The device may lag behind the host by more than the window shows.
            inside |= (tasks.step != NONE) & (tasks.step <= part.done[-1].step)
        self._chosen = np.flatnonzero((tasks.end > part.start_ns) & inside).tolist()
        if not part.done and self._sink != NONE and self._sink not in self._chosen:
            self._chosen.append(self._sink)

    def arrive(self) -> dict[tuple[int, int], ArrivedRank]:
        """Add the moments of host threads and the arrivals at collectives; returns arrivals by rank and operation."""
        part, tasks, builder = self.part, self._tasks, self._builder
        self._points_in_order = self._points(self._chosen)
        for thread, at in self._points_in_order:
            self._of_point[(thread, at)] = builder.node(part.rank, at + part.offset_ns, 0, thread=thread)
        found = {}
        for task in self._chosen:
            comm = self._operation(task)
            if comm is None:
                continue
            arrival = part.arrivals.get(comm)
            self._arrival[task] = builder.node(part.rank, int(tasks.start[task]) + part.offset_ns, 0)
            found[(part.rank, comm)] = ArrivedRank(
                node=self._arrival[task],
                end_ns=int(tasks.end[task]) + part.offset_ns,
                outside_ns=NEVER if arrival is None or arrival.comm_id is not None else arrival.at_ns + part.offset_ns,
            )
        return found

    def _operation(self, task: int) -> int | None:
        """The operation in which ranks meet that a task belongs to; None for a task of this rank alone."""
        tasks = self._tasks
        if tasks.component[task] == "comm":
            return int(tasks.comm[task])
        kernel = int(tasks.kernel[task])
        return of_kernel(kernel) if kernel in self.part.fused else None

    def place(self, met: Mapping[tuple[int, int], int]) -> None:
        """Add the tasks without their waits: an event wait has no length, a transfer begins with the last arrival."""
        tasks, part, builder = self._tasks, self.part, self._builder
        for task in self._chosen:
            start, end = int(tasks.start[task]) + part.offset_ns, int(tasks.end[task]) + part.offset_ns
            if tasks.component[task] == "wait":
                start = end
            elif (comm := self._operation(task)) is not None:
                start = min(max(start, self._begins(comm, met)), end)
            self._of_task[task] = builder.node(part.rank, start, end - start, task=task)

    def _begins(self, comm: int, met: Mapping[tuple[int, int], int]) -> int:
        """The moment at which the last rank had arrived at an operation, as far as known."""
        if (self.part.rank, comm) in met:
            return self._builder.start[met[(self.part.rank, comm)]]
        arrival = self.part.arrivals.get(comm)
        return NEVER if arrival is None else arrival.at_ns + self.part.offset_ns

    def connect(self, met: Mapping[tuple[int, int], int]) -> tuple[int, ...]:
        """Add the edges between nodes; returns the nodes at which steps are done, the last step's node at the end."""
        self._host_edges(self._points_in_order)
        self._call_edges()
        self._ended = sorted(
            (self._builder.finish(node), node) for node in map(self._of_task.get, self._arrival) if node
        )
        self._every_end = sorted((self._builder.finish(node), node) for node in self._of_task.values())
        for task, before in computed_before(self._tasks, self._chosen, self.part.graph.marked_ns).items():
            node = self._arrival.get(task, self._of_task[task])
            self._builder.edge(self._of_task[before], node, DEVICE)
        for task in self._chosen:
            if (comm := self._operation(task)) is not None:
                self._comm_edges(task, comm, met)
            self._task_edges(task)
        if not self.part.done:
            return (self._of_task.get(self._sink, NONE),)
        found = tuple(self._done(done) for done in self.part.done)
        self._order_edges(met)
        return found

    def _done(self, done: RankDone) -> int:
        """The node at which a step is done; -1 if nothing of the step is known."""
        tasks, builder = self._tasks, self._builder
        last: dict[str, int] = {}
        for task in self._chosen:
            number = int(tasks.step[task])
            known = done.step is not None and number != NONE
            of_it = number <= (done.step or 0) if known else tasks.end[task] <= done.end_ns
            if of_it and tasks.component[task] in WORK:
                node = self._of_task[task]
                last[tasks.line[task]] = max(last.get(tasks.line[task], node), node, key=builder.finish)
        before = list(last.values())
        if not before:
            return NONE
        node = builder.node(self.part.rank, max(map(builder.finish, before)), 0)
        for one in before:
            builder.edge(one, node, DEVICE)
        return node

    def _order_edges(self, met: Mapping[tuple[int, int], int]) -> None:
        """Order each task after the earlier task that lasted longest, or beside it as long as measured.

        Without this order, tasks that nothing recorded delays would run beside everything once the host is faster. A
        transfer that waits for ranks which were seen to meet is delayed by them instead.
        """
        builder = self._builder
        nodes = [
            (self._arrival.get(task, NONE), self._of_task[task]) for task in self._chosen if self._is_work(task, met)
        ]
        ordered = sorted(nodes, key=lambda pair: (builder.start[pair[1]], builder.finish(pair[1])))
        longest = NONE
        for arrival, node in ordered:
            begins = node if arrival == NONE else arrival
            if longest != NONE:
                lag = min(builder.start[begins] - builder.finish(longest), 0)
                builder.edge(longest, begins, ORDER, lag)
            if longest == NONE or builder.finish(node) > builder.finish(longest):
                longest = node

    def _is_work(self, task: int, met: Mapping[tuple[int, int], int]) -> bool:
        joint = (self.part.rank, int(self._tasks.comm[task])) in met
        return self._tasks.component[task] in WORK and not joint

    def _comm_edges(self, task: int, comm: int, met: Mapping[tuple[int, int], int]) -> None:
        """Add the edges of a transfer, which waits for its own rank and for the last rank."""
        node, builder = self._of_task[task], self._builder
        builder.edge(self._arrival[task], node, DEVICE)
        arrival = self.part.arrivals.get(comm)
        meeting = met.get((self.part.rank, comm))
        if meeting is not None:
            builder.edge(meeting, node, MET)
        if arrival is not None and (meeting is None or arrival.comm_id is None):
            self._wait_for(arrival, node if meeting is None else meeting)

    def _wait_for(self, arrival: Arrival, node: int) -> None:
        """Let an uncollected rank arrive as long after the collective before as measured: it waited for that too."""
        at = arrival.at_ns + self.part.offset_ns
        place = bisect_right(self._ended, (at, FREE)) - 1
        if place < 0:
            self._builder.hold(node, at, arrival.rank)
        else:
            finish, before = self._ended[place]
            self._builder.edge(before, node, OUTSIDE, at - finish, peer=arrival.rank)

    def _points(self, chosen: Sequence[int]) -> list[tuple[int, int]]:
        """The moments of host threads that matter: launches, ends of waits, and the moments that ended those waits."""
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
        # The work of a thread from the beginning on is work like any other.
        found |= {(thread, start_ns) for thread in {thread for thread, _ in found}}
        for thread, calls in enumerate(self._calls()):
            inside = (calls.at_ns >= start_ns) & (calls.at_ns <= end_ns)
            found |= {(thread, at) for at in calls.at_ns[inside].tolist()}
        # Sort by time over all threads: of two moments at one time, either may hand over to the other.
        return sorted(found, key=lambda point: (point[1], point[0]))

    def _calls(self) -> tuple[HostJumps, ...]:
        """Calls that found the device done: in a replay with a faster host, they wait."""
        return self.part.graph.found_done if self.part.done else ()

    def _host_edges(self, points: Sequence[tuple[int, int]]) -> None:
        """Add the work of each thread from one moment to the next, and its waits between them."""
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

    def _call_edges(self) -> None:
        """Let a call that found the device done return with the task that had ended last, wherever that task ends."""
        for thread, calls in enumerate(self._calls()):
            for at, task in zip(calls.at_ns.tolist(), calls.task.tolist(), strict=True):
                if (thread, at) in self._of_point and task in self._of_task:
                    self._builder.edge(self._of_task[task], self._of_point[(thread, at)], WAITED)

    def _source(self, task: int, thread: int, since: int) -> int:
        return self._of_task.get(task, NONE) if task != NONE else self._of_point.get((thread, since), NONE)

    def _task_edges(self, task: int) -> None:
        """Let a task wait for its stream, for its launch, and for a task of another stream."""
        tasks, builder, offset = self._tasks, self._builder, self.part.offset_ns
        node = self._arrival.get(task, self._of_task[task])
        launch = (int(tasks.called_thread[task]), int(tasks.called_ns[task]))
        if launch in self._of_point:
            builder.edge(self._of_point[launch], node, LAUNCHED)
        elif launch[0] != NONE:
            # The launch lies before the window.
            builder.hold(node, launch[1] + offset)
        beside = self._of_task.get(int(tasks.beside[task]), NONE)
        if beside != NONE:
            builder.edge(beside, node, DEVICE, min(builder.start[node] - builder.finish(beside), 0))
        known = [launch[1]] if launch[0] != NONE else []
        for other in {int(tasks.before[task]), int(tasks.bind[task])} - {NONE}:
            known.append(int(tasks.end[other]))
            if other in self._of_task:
                builder.edge(self._of_task[other], node, DEVICE)
            else:
                builder.hold(node, int(tasks.end[other]) + offset)
        if known:
            self._unexplained(node, max(known) + offset)

    def _unexplained(self, node: int, ready_ns: int) -> None:
        """Let a task that began long after its known causes, soon after another task's end, wait for that task.

        Profilers lose events: waits of streams for each other, or a kernel between the two tasks, which becomes the
        lag.
        """
        start = self._builder.start[node]
        if start - ready_ns <= _LONG_NS:
            return
        place = bisect_right(self._every_end, (start, FREE)) - 1
        finish, before = self._every_end[place] if place >= 0 else (NEVER, NONE)
        if before not in (NONE, node) and _NEARER * (start - finish) <= start - ready_ns:
            self._builder.edge(before, node, DEVICE, start - finish)
