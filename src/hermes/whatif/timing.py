"""Where the time of a step goes on each rank, with the times as they were measured or as a replay gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hermes.analyze.graph import NONE
from hermes.analyze.net import DEVICE
from hermes.base.intervals import EMPTY, Intervals, Ints, flat, window
from hermes.whatif.job import JobStep

KINDS = ("compute", "comm", "wait", "copy")
"""What a device does, the first that goes on at a moment counting: work, transfers, waiting at a collective for the
ranks that have not arrived, copies. What is left is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One rank in a step of `step_ns`, which begins at 0: by kind when it went on, no two at once; the rest is free."""

    rank: int
    step_ns: int
    sets: Mapping[str, Intervals]

    @property
    def split(self) -> dict[str, int]:
        """Nanoseconds by kind and `free`; together they are the step."""
        found = {kind: own.total for kind, own in self.sets.items()}
        return {**found, "free": self.step_ns - sum(found.values())}

    def pieces(self, most: int) -> list[tuple[str, int, int]]:
        """The rank's time as at most `most` stretches of kind, start and end: each moment is that of a part of the step
        of equal length, and has the kind that takes most of it.
        """
        edges = np.linspace(0, self.step_ns, most + 1).astype(np.int64)
        lasted = np.stack([np.diff(self.sets[kind].lasted(edges)) for kind in KINDS])
        lasted = np.vstack([lasted, np.diff(edges) - lasted.sum(axis=0)])
        names = (*KINDS, "free")
        found: list[tuple[str, int, int]] = []
        for place, kind in enumerate(lasted.argmax(axis=0).tolist()):
            start, end = int(edges[place]), int(edges[place + 1])
            if found and found[-1][0] == names[kind]:
                found[-1] = (names[kind], found[-1][1], end)
            else:
                found.append((names[kind], start, end))
        return found


def timings(job: JobStep, start: Ints, dur: Ints) -> list[Timing]:
    """All ranks of a step whose nodes start and last so; the step ends with its last rank."""
    net = job.net
    finish = start + dur
    end = max((int(finish[node]) for node in net.sinks.values()), default=job.begin_ns)
    arrived = _arrivals(job)
    inside = window(job.begin_ns, max(end, job.begin_ns))
    found = []
    for rank in sorted({int(rank) for rank in net.rank if rank != NONE}):
        mine = (net.rank == rank) & (net.task != NONE)
        sets = {kind: _flat(start, finish, mine & (job.component == kind)) for kind in ("compute", "comm", "copy")}
        met = np.flatnonzero(mine & (arrived != NONE))
        sets["wait"] = flat(start[arrived[met]], start[met])
        found.append(Timing(rank=rank, step_ns=inside.total, sets=_apart(sets, inside, job.begin_ns)))
    return found


def _flat(start: Ints, finish: Ints, chosen: np.ndarray) -> Intervals:
    return flat(start[chosen], finish[chosen])


def _apart(sets: Mapping[str, Intervals], inside: Intervals, begin_ns: int) -> dict[str, Intervals]:
    """The sets inside the step without what those before them hold, counted from where the step begins."""
    taken = EMPTY
    found = {}
    for kind in KINDS:
        own = (sets[kind] & inside) - taken
        taken = taken | own
        found[kind] = Intervals(own.starts - begin_ns, own.ends - begin_ns)
    return found


def _arrivals(job: JobStep) -> Ints:
    """By transfer the node at which its own rank had arrived; -1 for all other nodes."""
    net = job.net
    target = net.target
    own = (net.kind == DEVICE) & (net.task[net.pred] == NONE) & (net.rank[net.pred] == net.rank[target])
    own &= job.component[target] == "comm"
    found = np.full(len(net.start), NONE, dtype=np.int64)
    found[target[own]] = net.pred[own]
    return found
