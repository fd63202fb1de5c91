"""Attributes the time of a step on each rank to kinds of work, as measured or as replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hermes.base.intervals import EMPTY, Intervals, Ints, union_of_intervals
from hermes.profiles.measure.path.event_graph import DEVICE
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.whatif.step_event_graph import JobStep

KINDS = ("compute", "comm", "wait", "copy")
"""Kinds of device time; at each moment the first kind that runs counts: compute, transfers, waits at a collective for
ranks that have not arrived, copies. The remaining time is free.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The time of all ranks in a step of `step_ns`, by kind, without overlaps; the remaining time is free.

    The ranks are laid end to end on one axis, and one sweep handles all ranks. The step of the rank at place `p` of
    `ranks` is `[p * step_ns, (p + 1) * step_ns)`.
    """

    ranks: tuple[int, ...]
    step_ns: int
    sets: Mapping[str, Intervals]

    def split(self, place: int) -> dict[str, int]:
        """The time in ns of one rank by kind and `free`; the times add up to the step."""
        return {kind: int(ns[0]) for kind, ns in self._between(place * self.step_ns + np.array([0, self.step_ns]))}

    def mean(self) -> dict[str, float]:
        """The time in ns by kind and `free`, as the mean over all ranks."""
        found = {kind: own.total / len(self.ranks) for kind, own in self.sets.items()}
        return {**found, "free": self.step_ns - sum(found.values())}

    def busiest(self) -> int:
        """The place of the rank with most time neither waiting nor free; of equal ranks the first."""
        work = sum(np.diff(self.sets[kind].lasted(self._edges())) for kind in KINDS if kind != "wait")
        return int(np.argmax(work))

    def pieces(self, place: int, most: int) -> list[tuple[str, int, int]]:
        """A rank's time as at most `most` stretches of kind, start and end in ns.

        The step is cut into parts of equal length, and each part gets the kind with most of its time.
        """
        edges = np.linspace(0, self.step_ns, most + 1).astype(np.int64)
        names, lasted = zip(*self._between(place * self.step_ns + edges), strict=True)
        found: list[tuple[str, int, int]] = []
        for part, kind in enumerate(np.stack(lasted).argmax(axis=0).tolist()):
            start, end = int(edges[part]), int(edges[part + 1])
            if found and found[-1][0] == names[kind]:
                found[-1] = (names[kind], found[-1][1], end)
            else:
                found.append((names[kind], start, end))
        return found

    def _edges(self) -> Ints:
        return np.arange(len(self.ranks) + 1, dtype=np.int64) * self.step_ns

    def _between(self, edges: Ints) -> list[tuple[str, Ints]]:
        """For each kind, and last for free time, its ns from each edge to the next."""
        found = [(kind, np.diff(own.lasted(edges))) for kind, own in self.sets.items()]
        taken = np.sum([lasted for _, lasted in found], axis=0)
        return [*found, ("free", np.diff(edges) - taken)]


def timings(job: JobStep, start: Ints, dur: Ints) -> Timings:
    """The times of the ranks of a step, given the start and duration of its nodes; the step ends with its last rank."""
    graph = job.graph
    finish = start + dur
    first, end = job.bounds(finish)
    step = max(end - first, 0)
    ranks = np.unique(graph.rank[graph.rank != NONE])
    begin = np.searchsorted(ranks, graph.rank) * step

    def laid(chosen: np.ndarray, since: Ints, until: Ints) -> Intervals:
        shift = begin[chosen]
        return union_of_intervals(np.clip(since - first, 0, step) + shift, np.clip(until - first, 0, step) + shift)

    task = graph.task != NONE
    of_kind = {kind: np.flatnonzero(task & (job.component == kind)) for kind in KINDS if kind != "wait"}
    sets = {kind: laid(nodes, start[nodes], finish[nodes]) for kind, nodes in of_kind.items()}
    arrived = _arrivals(job)
    met = np.flatnonzero(task & (arrived != NONE))
    sets["wait"] = laid(met, start[arrived[met]], start[met])
    return Timings(ranks=tuple(ranks.tolist()), step_ns=step, sets=_apart(sets))


def _apart(sets: Mapping[str, Intervals]) -> dict[str, Intervals]:
    """Each set of times without the times of the sets before it."""
    taken, found = EMPTY, {}
    for kind in KINDS:
        found[kind] = sets[kind] - taken
        taken = taken | sets[kind]
    return found


def _arrivals(job: JobStep) -> Ints:
    """For each transfer and fused kernel, the node at which its own rank had arrived; -1 for all other nodes."""
    graph = job.graph
    target = graph.target
    own = (graph.kind == DEVICE) & (graph.task[graph.pred] == NONE) & (graph.rank[graph.pred] == graph.rank[target])
    own &= np.isin(job.component[target], ("comm", "compute"))
    found = np.full(len(graph.start), NONE, dtype=np.int64)
    found[target[own]] = graph.pred[own]
    return found
