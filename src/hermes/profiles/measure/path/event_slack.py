"""Computes the slack of each node, backwards through an event graph."""

from __future__ import annotations

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.event_graph import FREE, EventGraph
from hermes.profiles.measure.path.previous_tasks import NONE


def slack(events: EventGraph) -> Ints:
    """For each node how much later it could finish without a sink finishing later; `FREE` if nothing depends on it.

    Slack is the total float of the critical path method (Kelley and Walker, 1959). A task of the window that nothing
    waits for may last until the window ends.
    """
    left = np.full(len(events.start), FREE, dtype=np.int64).tolist()
    start, finish = events.start.tolist(), events.finish.tolist()
    tasks, ranks = events.task.tolist(), events.rank.tolist()
    first, preds, lags = events.first.tolist(), events.pred.tolist(), events.lag.tolist()
    sinks = set(events.sinks.values())
    for node in range(len(start) - 1, -1, -1):
        if node in sinks:
            left[node] = 0
        elif left[node] == FREE:
            if tasks[node] == NONE:
                continue
            left[node] = max(events.ends[ranks[node]] - finish[node], 0)
        mine = start[node] + left[node]
        for edge in range(first[node], first[node + 1]):
            pred = preds[edge]
            room = mine - finish[pred] - lags[edge]
            if room < left[pred]:
                left[pred] = room
    return np.array(left, dtype=np.int64)
