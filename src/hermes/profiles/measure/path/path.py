"""Walks the critical path back from the end of a stretch of time, always to the last arrival.

The walk covers the stretch without a gap or an overlap: time without an explanation is a piece of its own. A wait is
never work of the waiting rank or thread: the walk goes on at the awaited one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from hermes.profiles.measure.communication.last_arrivals import Arrival
from hermes.profiles.measure.path.graph import SLACK_NS, Graph, HostJumps
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.tasks import under_way

Kind = Literal["compute", "comm", "copy", "wait", "launch", "queue", "host", "gap", "unexplained"]
_WORK: dict[str, Kind] = {"compute": "compute", "comm": "comm", "copy": "copy"}
# The most ns that a device needs between two tasks of a stream; HTA 0.5 takes 30 us as the limit of a "kernel wait".
LONGEST_GAP_NS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece of a critical path.

    `task` is a device task of the graph, `thread` one of its host threads; each is -1 if it does not apply.

    `rank` is the rank whose work it is; `peer` of a `wait` is the awaited rank.
    """

    rank: int
    start_ns: int
    end_ns: int
    kind: Kind
    task: int = NONE
    thread: int = NONE
    peer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankScene:
    """The data of one rank for a walk: its graph, the last arrivals at its collectives, and its clock offset in ns."""

    rank: int
    graph: Graph
    arrivals: Mapping[int, Arrival]
    offset_ns: int = 0


def walk(scene: RankScene, start_ns: int, end_ns: int) -> tuple[Piece, ...]:
    """The path of one rank through `[start_ns, end_ns)`, in the order of time; its pieces add up to the stretch.

    A wait for another rank is a piece of its own.
    """
    road = _Road(scene, start_ns, across=False)
    road.begin(end_ns)
    return road.pieces()


def walk_across(scenes: Callable[[int], RankScene], rank: int, start_ns: int, end_ns: int) -> tuple[Piece, ...]:
    """The path through a stretch of time of `rank`, and through each awaited rank whose graph is known.

    `scenes` gives the scene of a rank. Each piece has the time of its own rank's clock; on one clock the pieces add up.
    """
    scene = scenes(rank)
    road = _Road(scene, start_ns, across=True)
    road.begin(end_ns)
    found = [road.pieces()]
    seen: set[tuple[int, int]] = set()
    while road.handed and (road.handed.rank, road.handed.comm_id) not in seen:
        held, at = road.handed, road.now + scene.offset_ns
        seen.add((held.rank, held.comm_id or 0))
        begun = start_ns + scenes(rank).offset_ns
        scene = scenes(held.rank)
        road = _Road(scene, begun - scene.offset_ns, across=True)
        road.enter(held.comm_id, at - scene.offset_ns)
        found.append(road.pieces())
    return tuple(piece for pieces in reversed(found) for piece in pieces)


class _Road:
    """A walk in progress on one rank: all time after `now` is explained."""

    def __init__(self, scene: RankScene, start_ns: int, *, across: bool) -> None:
        self._graph = scene.graph
        self._rank = scene.rank
        self._arrivals = scene.arrivals
        self._start = start_ns
        self._across = across
        self._found: list[Piece] = []
        self._used: set[tuple[int, int]] = set()
        self._met: set[int] = set()
        self.now = 0
        self.handed: Arrival | None = None
        """The place at which a walk across ranks goes on after it has left this rank."""

    def lead_to(self, end_ns: int) -> None:
        """Walk from what the first work at or after `end_ns` waited for; without any, from the last known work."""
        self.now = end_ns
        tasks = self._graph.tasks
        place = int(np.searchsorted(tasks.start, end_ns, side="left"))
        while place < len(tasks.start) and tasks.component[place] not in _WORK:
            place += 1
        if place < len(tasks.start):
            self._before(place)
        elif self._graph.main != NONE:
            self._follow(NONE, self._graph.main)
        else:
            self._from_last()
        self._rest()

    def _from_last(self) -> None:
        """Walk from the work that ended last, if nothing follows it."""
        tasks = self._graph.tasks
        earlier = np.flatnonzero(np.array([kind in _WORK for kind in tasks.component], dtype=bool))
        if len(earlier):
            task = int(earlier[np.argmax(tasks.end[earlier])])
            self._take("unexplained", int(tasks.end[task]))
            self._follow(task, NONE)

    def enter(self, comm_id: int | None, at_ns: int) -> None:
        """Walk from the arrival at an operation."""
        self.now = at_ns
        tasks = np.flatnonzero(self._graph.tasks.comm == comm_id)
        if len(tasks):
            self._before(int(tasks[0]))
        self._rest()

    def pieces(self) -> tuple[Piece, ...]:
        """The pieces found so far, in the order of time."""
        return tuple(reversed(self._found))

    def begin(self, end_ns: int) -> None:
        """Walk from the work that was under way at `end_ns`, or else from what the next task waited for."""
        running = under_way(self._graph.tasks, end_ns)
        if running != NONE:
            self.now = end_ns
            self._follow(running, NONE)
            self._rest()
        else:
            self.lead_to(end_ns)

    def _rest(self) -> None:
        if self.handed is None:
            self._take("unexplained", self._start)

    def _follow(self, task: int, thread: int) -> None:
        # Tasks of no length at one moment may each seem to have waited for the other.
        while self.now > self._start and (task not in self._met if task != NONE else thread != NONE):
            self._met.add(task)
            task, thread = self._through(task) if task != NONE else self._along(thread)

    def _before(self, task: int) -> None:
        self._follow(*self._to_binding(task))

    def _through(self, task: int) -> tuple[int, int]:
        """Go back over a device task to what it waited for."""
        tasks = self._graph.tasks
        kind = tasks.component[task]
        if kind == "comm" and (arrival := self._arrivals.get(int(tasks.comm[task]))):
            self._take("comm", arrival.at_ns, task=task)
            if self._across and arrival.comm_id is not None and self.now > self._start:
                self.handed = arrival
                return NONE, NONE
            self._take("wait", int(tasks.start[task]), task=task, peer=arrival.rank)
        elif kind in _WORK:
            self._take(_WORK[kind], int(tasks.start[task]), task=task)
        elif kind != "wait":
            # The record of an event takes nearly no time.
            self._take("gap", int(tasks.start[task]), task=task)
        return self._to_binding(task)

    def _to_binding(self, task: int) -> tuple[int, int]:
        tasks = self._graph.tasks
        bind, thread = int(tasks.bind[task]), int(tasks.launch_thread[task])
        if bind != NONE:
            since = min(int(tasks.end[bind]), self.now)
            beyond = self.now - since - LONGEST_GAP_NS
            # Nearly all gaps are short: only a long gap is checked for hidden events.
            pause = beyond <= 0 or beyond <= self._hidden_ns(bind, task)
            self._take("gap" if pause else "unexplained", since, task=task)
            return bind, NONE
        if thread != NONE:
            self._take("launch", int(tasks.launch_ns[task]), task=task)
            return NONE, thread
        return NONE, NONE

    def _hidden_ns(self, before: int, task: int) -> int:
        """The ns of device time that hidden events between the launches of two tasks may take."""
        called = self._graph.tasks.called_ns[[before, task]]
        first, last = np.searchsorted(self._graph.marked_ns, called) if (called != NONE).all() else (0, 0)
        return max(int(last - first), 0) * SLACK_NS

    def _along(self, thread: int) -> tuple[int, int]:
        """Go back along a host thread to the last moment at which it had waited."""
        jumps = self._graph.jumps[thread]
        place = self._last_jump(thread, jumps)
        if place == NONE:
            self._take("host", self._start, thread=thread)
            return NONE, NONE
        self._used.add((thread, place))
        self._take("host", int(jumps.at_ns[place]), thread=thread)
        self._take("queue", int(jumps.since_ns[place]), thread=thread)
        return int(jumps.task[place]), int(jumps.thread[place])

    def _last_jump(self, thread: int, jumps: HostJumps) -> int:
        """The last jump at or before `now` that was not taken yet."""
        place = bisect_right(jumps.at_ns, self.now) - 1
        while place >= 0 and (thread, place) in self._used:
            place -= 1
        return place

    def _take(self, kind: Kind, back_to: int, *, task: int = NONE, thread: int = NONE, peer: int | None = None) -> None:
        """Explain the time back to a moment; does nothing if the moment is not before `now`."""
        to = max(back_to, self._start)
        if to < self.now:
            self._found.append(
                Piece(
                    rank=self._rank, start_ns=to, end_ns=self.now, kind=kind, task=task, thread=thread, peer=peer
                )
            )  # fmt: skip
            self.now = to


def covered(pieces: Sequence[Piece]) -> int:
    """The ns that the pieces cover, checked for gaps and overlaps; raises `ValueError` if there are any."""
    for piece, following in pairwise(pieces):
        if piece.end_ns != following.start_ns:
            raise ValueError(f"a path with a gap between {piece.end_ns} and {following.start_ns}")
    return pieces[-1].end_ns - pieces[0].start_ns if pieces else 0
