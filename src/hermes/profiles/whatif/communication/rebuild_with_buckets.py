"""Rebuilds a step's graph with other buckets: replaces the collectives and leaves everything else unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hermes.profiles.measure.path.event_graph import DEVICE, MET, NEVER, ORDER, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collectives_in_graph import Family, Operation

SWITCH_NS = 5_000
"""Time in ns between two transfers on a stream, if the trace does not tell it: HTA 0.5 takes up to 30 us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A planned collective: the running total of bytes including it, its transfer time in ns, and by rank its compute.

    `ready` holds, for each rank, the compute node before the collective and the time in ns from its end to the arrival.
    """

    end: int
    ns: int
    ready: Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """The buckets that replace a family of collectives, in the order in which they are sent."""

    family: Family
    buckets: tuple[Bucket, ...]


class TangledError(Exception):
    """Raised when collectives would wait for each other, because times of the trace contradict each other."""


def rebuilt(graph: EventGraph, plans: Sequence[Buckets]) -> EventGraph:
    """The graph with other buckets: work that waited for a collective waits for the bucket with its last bytes.

    Work that went on before the last collective of a family had arrived did not wait for the family, whatever its times
    suggest.

    The new graph drops the edges for the order in which a device did its tasks. Old nodes keep their starts, new
    nodes get 0: `starts` computes them. Raises `TangledError`.
    """
    made = ChangedGraph(graph)
    for plan in plans:
        made.put(plan)
    return made.graph()


class ChangedGraph:
    """The nodes and edges of a graph while it is changed; new nodes are numbered after the old ones."""

    def __init__(self, graph: EventGraph) -> None:
        self._graph = graph
        self._from_ns = np.full(len(graph.start), NEVER, dtype=np.int64)
        self._dur: list[int] = []
        self._rank: list[int] = []
        self._edges: list[tuple[int, int, int, int]] = []
        self._instead: dict[int, int] = {}
        self.gone: set[int] = set()

    def put(self, plan: Buckets) -> None:
        """Remove the collectives of a family and add its buckets."""
        operations = plan.family.operations
        last = {rank: one for rank, one in operations[0].before.items()}
        holds: list[dict[int, int]] = []
        for bucket in plan.buckets:
            meeting = self.node(NONE, 0)
            now = {}
            for rank, (ready, lag) in bucket.ready.items():
                arrival, now[rank] = self.node(rank, 0), self.node(rank, bucket.ns)
                self.edge(arrival, ready, lag, DEVICE)
                if rank in last:
                    self.edge(arrival, last[rank], SWITCH_NS, DEVICE)
                self.edge(meeting, arrival, 0, MET)
                self.edge(now[rank], meeting, 0, MET)
            last = now
            holds.append(now)
        place = 0
        for one, end in zip(operations, plan.family.ends, strict=True):
            while plan.buckets[place].end < end and place + 1 < len(plan.buckets):
                place += 1
            self.replace(one, holds[place], operations[-1])

    def replace(self, one: Operation, by: Mapping[int, int], last: Operation | None = None) -> None:
        """Remove a collective: its followers wait for `by`, except work that began before `last` arrived."""
        self._instead |= {node: by[rank] for rank, node in one.transfer.items()}
        if last is not None:
            for rank, node in one.transfer.items():
                self._from_ns[node] = self._graph.start[last.arrival[rank]]
        self.gone |= {one.meeting, *one.arrival.values(), *one.transfer.values()} - {NONE}

    def node(self, rank: int, ns: int) -> int:
        """Add a node that lasts `ns`; returns its number."""
        self._dur.append(ns)
        self._rank.append(rank)
        return len(self._graph.start) + len(self._dur) - 1

    def edge(self, node: int, pred: int, lag: int, kind: int) -> None:
        """Let a new node wait for another node."""
        self._edges.append((node, pred, lag, kind))

    def graph(self) -> EventGraph:
        """The changed graph, with nodes in an order in which each node follows the nodes it waits for."""
        old, more = self._graph, len(self._dur)
        many = len(old.start) + more
        instead = np.arange(many)
        for node, other in self._instead.items():
            instead[node] = other
        gone = np.zeros(many, dtype=bool)
        gone[list(self.gone)] = True
        new = np.array(self._edges, dtype=np.int64).reshape(-1, 4)
        target = np.concatenate([old.target, new[:, 0]])
        used = old.start[old.target] < self._from_ns[old.pred]
        early = np.concatenate([used, np.zeros(len(new), dtype=bool)])
        pred = instead[np.concatenate([old.pred, new[:, 1]])]
        lag, kind = np.concatenate([old.lag, new[:, 2]]), np.concatenate([old.kind, new[:, 3]])
        holds = ~gone[target] & ~gone[pred] & (kind != ORDER) & ~early
        target, pred, lag, kind = target[holds], pred[holds], lag[holds], kind[holds]
        order = _ordered(many, target, pred)
        place = np.empty(many, dtype=np.int64)
        place[order] = np.arange(many)
        by_node = np.argsort(place[target], kind="stable")
        none = np.full(more, NONE, dtype=np.int64)
        # A removed collective holds nothing, and nothing waits for it.
        release = np.where(gone, 0, np.concatenate([old.release, np.full(more, NEVER)]))
        return EventGraph(
            start=np.concatenate([old.start, np.zeros(more, dtype=np.int64)])[order],
            dur=np.where(gone, 0, np.concatenate([old.dur, np.array(self._dur, dtype=np.int64)]))[order],
            release=release[order],
            first=np.searchsorted(place[target][by_node], np.arange(many + 1)),
            pred=place[pred][by_node],
            lag=lag[by_node],
            kind=kind[by_node],
            task=np.concatenate([old.task, none])[order],
            thread=np.concatenate([old.thread, none])[order],
            rank=np.concatenate([old.rank, np.array(self._rank, dtype=np.int64)])[order],
            held_by={},
            sinks={rank: int(place[instead[node]]) for rank, node in old.sinks.items()},
            ends=old.ends,
            origins={rank: int(place[instead[node]]) for rank, node in old.origins.items()},
        )


def _ordered(many: int, target: np.ndarray, pred: np.ndarray) -> np.ndarray:
    """All nodes in an order in which each node follows its predecessors."""
    waiting = np.bincount(target, minlength=many).tolist()
    by_pred = np.argsort(pred, kind="stable")
    following = target[by_pred].tolist()
    first = np.searchsorted(pred[by_pred], np.arange(many + 1)).tolist()
    ready = [node for node in range(many - 1, -1, -1) if not waiting[node]]
    found = []
    while ready:
        node = ready.pop()
        found.append(node)
        for after in following[first[node] : first[node + 1]]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    if len(found) < many:
        raise TangledError
    return np.array(found, dtype=np.int64)
