"""Infers events that no trace records: the compute that a collective waited for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from hermes.base.intervals import Ints
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.tasks import Tasks

_SLACK_NS = 1_000


def computed_before(tasks: Tasks, chosen: Sequence[int], marked_ns: Ints) -> Mapping[int, int]:
    """For each collective, the last compute task that its thread launched before it: the collective begins after it.

    PyTorch lets the stream of a collective wait for the stream that computes (`syncStream` of ProcessGroupNCCL). If any
    collective of a stream began earlier than its compute ended, the stream waits for something else, and no collective
    of it is listed.
    """
    found: dict[int, int] = {}
    apart: set[str] = set()
    launched = _by_thread(tasks, chosen)
    for task in np.intersect1d(chosen, np.flatnonzero(np.isin(tasks.called_ns, marked_ns))).tolist():
        if tasks.component[task] != "comm" or tasks.called_thread[task] == NONE:
            continue
        moments, of = launched.get(int(tasks.called_thread[task]), ([], []))
        place = bisect_left(moments, int(tasks.called_ns[task])) - 1
        if place < 0:
            continue
        found[task] = of[place]
        if tasks.end[of[place]] > tasks.start[task] + _SLACK_NS:
            apart.add(tasks.line[task])
    return {task: before for task, before in found.items() if tasks.line[task] not in apart}


def _by_thread(tasks: Tasks, chosen: Sequence[int]) -> dict[int, tuple[list[int], list[int]]]:
    """For each host thread, the sorted launch times of its compute tasks, and the tasks."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for task in chosen:
        if tasks.component[task] == "compute" and tasks.called_thread[task] != NONE:
            rows.setdefault(int(tasks.called_thread[task]), []).append((int(tasks.called_ns[task]), int(task)))
    return {thread: ([at for at, _ in sorted(own)], [task for _, task in sorted(own)]) for thread, own in rows.items()}
