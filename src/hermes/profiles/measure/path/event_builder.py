"""Builds an event graph: collects nodes and edges, and solves for the lags that give the measured times."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import DEVICE, NEVER, ORDER, EventGraph
from hermes.profiles.measure.path.graph import LONGEST_SWITCH_NS
from hermes.profiles.measure.path.previous_tasks import NONE

APART_NS = 100_000
"""The most ns by which aligned clocks of ranks still differ: half of a round trip over a network."""


class Builder:
    """Collects nodes and what each node waits for, and computes the lags that give the measured times."""

    def __init__(self) -> None:
        self.start: list[int] = []
        self.dur: list[int] = []
        self.task: list[int] = []
        self.thread: list[int] = []
        self.rank: list[int] = []
        self._edges: list[tuple[int, int, int, int]] = []
        self._release: dict[int, int] = {}
        self._held_by: dict[int, int] = {}
        self._pulled: dict[int, int] = {}

    def node(self, rank: int, start: int, dur: int, *, task: int = NONE, thread: int = NONE) -> int:
        """Add a node; returns its number in the builder."""
        for column, value in (
            (self.start, start), (self.dur, dur), (self.task, task), (self.thread, thread), (self.rank, rank)
        ):  # fmt: skip
            column.append(value)
        return len(self.start) - 1

    def finish(self, node: int) -> int:
        """The moment in ns at which a node finishes."""
        return self.start[node] + self.dur[node]

    def edge(self, pred: int, node: int, kind: int, lag: int = 0, *, peer: int | None = None) -> None:
        """Let `node` start at least `lag` after `pred`; the edge is dropped if the measured times contradict it.

        `peer` is the awaited rank, if it was not collected.
        """
        lag = min(lag, self.start[node] - self.finish(pred)) if peer is not None else lag
        if node in self._pulled:
            lag = min(lag, max(self.start[node] - self.finish(pred), -self._pulled[node]))
        if self.finish(pred) + lag <= self.start[node]:
            self._edges.append((node, pred, lag, kind))
            if peer is not None:
                self._held_by[node] = peer

    def pull(self, node: int, until_ns: int) -> None:
        """Move a node to an earlier moment, as far as clocks may differ; the nodes it waits for stay its cause."""
        late = self.start[node] - until_ns
        if 0 < late <= APART_NS:
            self.start[node] = until_ns
            self._pulled[node] = late

    def hold(self, node: int, until_ns: int, rank: int | None = None) -> None:
        """Let `node` start no earlier than a moment that nothing in the graph moves; `rank` is the awaited rank."""
        self._release[node] = max(self._release.get(node, NEVER), min(until_ns, self.start[node]))
        if rank is not None:
            self._held_by[node] = rank

    def events(self, sinks: Mapping[int, int], ends: Mapping[int, int], origins: Mapping[int, int]) -> EventGraph:
        """The event graph: its nodes by time, and its edges by node."""
        start, dur = np.array(self.start, dtype=np.int64), np.array(self.dur, dtype=np.int64)
        # Equal nodes keep the order in which they were added: a node is added after the nodes it waits for.
        order = np.lexsort((np.arange(len(start)), start + dur, start))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        edges = np.array(self._edges, dtype=np.int64).reshape(-1, 4)
        edges[:, :2] = place[edges[:, :2]]
        edges = _in_order(edges[np.argsort(edges[:, 0], kind="stable")], start[order], dur[order])
        release = np.full(len(start), NEVER, dtype=np.int64)
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
            origins={rank: int(place[node]) for rank, node in origins.items() if node != NONE},
        )


def _in_order(edges: NDArray[np.int64], start: Ints, dur: Ints) -> NDArray[np.int64]:
    """The edges by node, keeping edges whose predecessor stands before the node.

    A node that was moved before its predecessor, because a clock is off, waits for that predecessor's predecessors.
    """
    late = edges[:, 1] >= edges[:, 0]
    kept, left = edges[~late], edges[late].tolist()
    more: list[list[int]] = []
    while left:
        node, pred, lag, kind = left.pop()
        first, last = np.searchsorted(kept[:, 0], (pred, pred + 1))
        for _, before, further, of in kept[first:last].tolist():
            if of == DEVICE == kind and before < pred:
                room = int(start[node] - start[before] - dur[before])
                row = [node, before, min(lag + int(dur[pred]) + further, room), kind]
                (more if before < node else left).append(row)
    if more:
        kept = np.concatenate([kept, np.array(more, dtype=np.int64)])
    return kept[np.argsort(kept[:, 0], kind="stable")]


def _usual_switch(rest: Ints, of: Ints, device: NDArray[np.bool_]) -> int:
    """The ns that a device usually needs between two tasks that nothing else separates, by the median here."""
    own = rest[of[device]]
    return min(int(np.median(own)), LONGEST_SWITCH_NS) if len(own) else LONGEST_SWITCH_NS


def _residual(start: Ints, dur: Ints, edges: NDArray[np.int64], release: Ints) -> tuple[Ints, Ints]:
    """Lags and releases that give the measured starts.

    The gap between the last arrival and the start becomes lag on every edge with enough slack. A launch or a switch
    takes its time whichever edge was last. But a late launch does not wait for a device that has been done for long.
    """
    node, pred, lag, kind = edges.T
    ready = start[pred] + dur[pred] + lag
    last = release.copy()
    # The order of tasks is no reason for a start: the time it leaves open stays with the other edges.
    told = kind != ORDER
    np.maximum.at(last, node[told], ready[told])
    alone = last == NEVER
    release = np.where(alone, start, release)
    rest = np.where(alone, 0, start - last)
    held = release != NEVER
    release = np.where(held, release + np.minimum(rest, start - np.where(held, release, start)), release)
    room = np.minimum(rest[node], start[node] - ready)
    switch = (kind == DEVICE) & (ready < last[node])
    usual = _usual_switch(rest, node, (kind == DEVICE) & (ready == last[node]))
    room = np.where(switch, np.minimum(room, usual), room)
    return lag + np.where(told, room, 0), release
