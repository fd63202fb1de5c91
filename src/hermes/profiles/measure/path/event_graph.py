"""The event graph of a window: nodes with durations, and edges with lags; a node starts after its last predecessor.

A node is a device task, the arrival at a collective, the meeting of its ranks, or a moment of a host thread. Such
moments are launches, hand-overs and the ends of waits. The equations give back the measured times exactly: what an edge
does not explain is its lag. Backwards they give slack; forwards, with something changed, a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hermes.base.intervals import Ints

FREE = np.iinfo(np.int64).max
"""Slack of a node without influence on the end of the window."""


WORK = ("compute", "comm", "copy")
"""Components of device tasks that are work, not waits or events."""
DEVICE, WORKED, WAITED, LAUNCHED, MET, OUTSIDE, ORDER = range(7)
"""Kinds of edges: task after task, host work, end of a wait, launch, meeting of ranks, work of an uncollected rank, and
order.

An edge of kind `ORDER` is the order in which a device ran two tasks, without a known cause.
"""
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGraph:
    """The event graph of one rank, or of several on one clock: nodes by time.

    A node starts at `max(release, finish of each predecessor + lag)` and lasts `dur`. The edges into node `n` are
    `first[n]` to `first[n + 1]` of `pred`, `lag` and `kind`; each predecessor stands before its node. `release` is a
    moment that nothing inside the graph moves. `held_by` holds, for nodes that waited for a rank that was not
    collected, that rank: by their release, or by an edge of kind `OUTSIDE` from the collective before. `task` is the
    device task of a node or -1, `thread` its host thread or -1, `rank` its rank. `sinks` holds, by rank, the node whose
    finish ends the window, `ends` the window's end. `origins` is the node whose finish ends the step before, if the
    graph holds that step: then the step lies between the two.
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
    origins: Mapping[int, int] = field(default_factory=dict)

    @property
    def finish(self) -> Ints:
        """The moment in ns at which each node finishes."""
        return self.start + self.dur

    @property
    def target(self) -> Ints:
        """The node that each edge leads to."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.first))


def starts(
    events: EventGraph, *, dur: Ints | None = None, lag: Ints | None = None, release: Ints | None = None
) -> Ints:
    """The start of each node in ns with other durations, lags or releases; with none given, as measured."""
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
