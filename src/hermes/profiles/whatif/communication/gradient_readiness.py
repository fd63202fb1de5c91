"""Finds when gradients are ready: the compute that must end before a number of bytes of gradients exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import ORDER, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.communication.collectives_in_graph import Family, Operation

When = Literal["early", "middle", "late"]
_MATCHES = 0.01
"""The largest relative difference between recorded and sent bytes of gradients that counts as a match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The gradients of one rank in the order in which autograd took them.

    `launched_ns` is, for each gradient, the moment on the common clock up to which the tasks that compute it were
    launched.
    """

    launched_ns: Ints
    bytes: Ints
    step: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """The compute tasks of one rank: the launch in ns on the common clock, and the node of each."""

    launched_ns: Ints
    node: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """When the bytes of a family are ready: by rank, compute nodes in order with the bytes that are ready after each.

    `sizes` are the gradients' sizes in order; empty if they were not recorded. Then gradients between two buckets are
    ready `early` (with the first compute after the previous bucket), `late` (with the last) or evenly.
    """

    sizes: tuple[int, ...]
    ends: tuple[int, ...]
    nodes: Mapping[int, tuple[Ints, Ints]]
    compute: Mapping[int, Ints]

    def node(self, rank: int, end: int, when: When = "middle") -> int:
        """The compute node after which the first `end` bytes are ready on a rank."""
        known, nodes = self.nodes[rank]
        place = int(np.searchsorted(known, end, side="left"))
        place = min(place, len(nodes) - 1)
        if self.sizes or end == known[place] or when == "late":
            return int(nodes[place])
        # The wanted bytes end between two recorded buckets.
        every = self.compute[rank]
        last = int(np.searchsorted(every, nodes[place]))
        first = int(np.searchsorted(every, nodes[place - 1])) if place else self._begin(rank, last)
        low = int(known[place - 1]) if place else 0
        share = (end - low) / (int(known[place]) - low) if when == "middle" else 0.0
        return int(every[min(last, first + max(1, round(share * (last - first))))])

    def _begin(self, rank: int, last: int) -> int:
        """Where the compute of the first bucket begins, if it takes as much compute per byte as later buckets."""
        known, nodes = self.nodes[rank]
        if len(nodes) < 2:
            return last
        every = self.compute[rank]
        later = int(np.searchsorted(every, nodes[-1])) - last
        return max(0, last - round(later * int(known[0]) / max(1, int(known[-1] - known[0]))))


def readiness_of(
    graph: EventGraph, family: Family, compute: Mapping[int, Compute], gradients: Mapping[int, Gradients],
    computes: np.ndarray,
) -> Readiness | None:  # fmt: skip
    """When the bytes of a family are ready; None for a single collective whose gradients were not recorded."""
    told = _recorded(family, compute, gradients)
    if told is not None:
        return told
    if len(family.operations) < 2:
        return None
    nodes: dict[int, tuple[Ints, Ints]] = {}
    every: dict[int, Ints] = {}
    ends = np.array(family.ends, dtype=np.int64)
    for rank in family.ranks:
        own = [last_compute_before(graph, one, rank, computes) for one in family.operations]
        if NONE in own:
            return None
        nodes[rank] = (ends, np.maximum.accumulate(np.array(own, dtype=np.int64)))
        every[rank] = np.flatnonzero(computes & (graph.rank == rank))
    return Readiness(sizes=(), ends=family.ends, nodes=nodes, compute=every)


def _recorded(family: Family, compute: Mapping[int, Compute], gradients: Mapping[int, Gradients]) -> Readiness | None:
    """The readiness from the gradients that autograd took, if the last gradients of a step add up to the sent bytes."""
    nodes: dict[int, tuple[Ints, Ints]] = {}
    sizes: tuple[int, ...] = ()
    for rank in family.ranks:
        own, launched = gradients.get(rank), compute.get(rank)
        if own is None or launched is None or not len(launched.node):
            return None
        mine = np.flatnonzero(own.step == family.operations[0].step)
        back = np.cumsum(own.bytes[mine][::-1])
        many = int(np.argmin(np.abs(back - family.bytes))) + 1 if len(back) else 0
        if not many or abs(int(back[many - 1]) - family.bytes) > _MATCHES * family.bytes:
            return None
        chosen = mine[-many:]
        place = np.searchsorted(launched.launched_ns, own.launched_ns[chosen], side="right") - 1
        # The compute of a gradient is placed before the arrival of the last collective.
        last = int(np.searchsorted(np.sort(launched.node), family.operations[-1].arrival[rank])) - 1
        found = np.minimum(launched.node[np.maximum(place, 0)], np.sort(launched.node)[max(last, 0)])
        found = np.maximum.accumulate(found)
        nodes[rank] = (np.cumsum(own.bytes[chosen]), found)
        sizes = sizes or tuple(own.bytes[chosen].tolist())
    return Readiness(sizes=sizes, ends=family.ends, nodes=nodes, compute={})


def last_compute_before(graph: EventGraph, one: Operation, rank: int, computes: np.ndarray) -> int:
    """The last compute on its rank that a collective waits for, through events of streams; -1 if there is none."""
    left, seen, best = [one.arrival[rank]], set(), NONE
    while left:
        node = left.pop()
        for edge in range(int(graph.first[node]), int(graph.first[node + 1])):
            pred = int(graph.pred[edge])
            on_host = graph.task[pred] == NONE
            if graph.kind[edge] == ORDER or on_host or graph.rank[pred] != rank or pred in seen:
                continue
            seen.add(pred)
            if computes[pred]:
                best = max(best, pred, key=lambda node: int(graph.finish[node]) if node != NONE else NONE)
            elif pred != one.before.get(rank):
                left.append(pred)
    return best
