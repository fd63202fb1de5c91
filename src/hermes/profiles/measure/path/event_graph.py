"""The dependency graph of a window as equations of time: each node starts when the last before it allows.

A node is a device task, the arrival at a collective, the meeting of its ranks, or a moment of a host thread: a launch,
a hand-over, or the end of a wait. The equations give back the measured times exactly: what an edge does not explain is
its lag. Backwards they give slack; forwards, with something changed, a replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hermes.base.intervals import Ints

FREE = np.iinfo(np.int64).max
"""Slack of what the end of the window does not depend on."""


WORK = ("compute", "comm", "copy")
"""Components of device tasks that are work, and no waiting or event."""
DEVICE, WORKED, WAITED, LAUNCHED, MET, OUTSIDE, ORDER = range(7)
"""Kinds of edges: task after task, host work, end of a wait, launch, meeting of ranks, work of a rank not collected,
and the order in which a device did its tasks, whatever made it so."""
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGraph:
    """Nodes by time, of one rank or of several on one clock.

    A node starts at `max(release, finish of each predecessor + lag)` and lasts `dur`. The edges into node `n` are
    `first[n]` to `first[n + 1]` of `pred`, `lag` and `kind`; each predecessor stands before its node. `release` is a
    moment that nothing inside moves. `held_by` holds, for the nodes that waited for a rank that was not collected,
    which one: by their release, or by an edge of kind `OUTSIDE` from the collective before. `task` is the device task
    of a node or -1, `thread` its host thread or -1, `rank` whose it is. `sinks` holds by rank the node whose finish
    ends its window, `ends` the window's end; `origins`, where the step before is part of the events, the node whose
    finish ends that one: then the step is what lies between the two.
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
        """When each node finishes."""
        return self.start + self.dur

    @property
    def target(self) -> Ints:
        """The node that each edge leads to."""
        return np.repeat(np.arange(len(self.start)), np.diff(self.first))


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
