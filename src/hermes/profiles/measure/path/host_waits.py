"""Finds calls of the host that wait for the device: calls that had to wait, and calls that did not."""

from __future__ import annotations

import numpy as np
import polars as pl

from hermes.base.intervals import Ints
from hermes.knowledge.blocking_calls import is_blocking
from hermes.model.tables import RUNTIME_KINDS
from hermes.profiles.measure.path.previous_tasks import NONE
from hermes.profiles.measure.path.tasks import Tasks

# A launch takes some microseconds. A launch of `_LONG_LAUNCH_NS` while the queue of the device is full was delayed by
# the queue. The queue holds about a thousand tasks (docs/decisions/0009), of which a quarter need not be in the
# capture.
_LONG_LAUNCH_NS = 100_000
_FULL_QUEUE = 768


def jump_frame(thread: Ints, at: Ints, task: Ints, other: Ints, since: Ints, idle: Ints) -> pl.DataFrame:
    """Moments of threads as rows of equally long columns."""
    return pl.DataFrame(
        {"thread": thread, "at_ns": at, "task": task, "other": other, "since_ns": since, "idle_ns": idle},
        schema=dict.fromkeys(("thread", "at_ns", "task", "other", "since_ns", "idle_ns"), pl.Int64),
    )


def calls_ended_by_task(tasks: Tasks, active: pl.DataFrame) -> pl.DataFrame:
    """Calls that returned because a device task had ended: that task, and how long after it the call returned.

    The calls are those that wait by their name, launches that a full queue delayed, and copies of pageable memory,
    which return with their own task.
    """
    calls = _calls(active)
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    long = end - start >= _LONG_LAUNCH_NS
    copies = _copies(tasks, calls)
    with_task = copies != NONE
    chosen = np.flatnonzero(~with_task & (_blocking(calls) | (long & (_queued_tasks(tasks, start) >= _FULL_QUEUE))))
    work = _work(tasks)
    place = np.searchsorted(tasks.end[work], end[chosen], side="right") - 1
    task = work[np.maximum(place, 0)] if len(work) else np.full(len(chosen), NONE)
    waited = (place >= 0) & (tasks.end[task] > start[chosen]) if len(work) else np.zeros(len(chosen), dtype=bool)
    task, chosen = task[waited], chosen[waited]
    own = np.flatnonzero(with_task)
    thread = calls["thread"].to_numpy()
    at = np.concatenate([tasks.end[task], end[own]])
    return jump_frame(
        np.concatenate([thread[chosen], thread[own]]),
        at,
        np.concatenate([task, copies[own]]),
        np.full(len(at), NONE),
        at,
        np.concatenate([start[chosen], start[own]]),
    )


def found_done(tasks: Tasks, active: pl.DataFrame) -> pl.DataFrame:
    """Calls that wait by their name and did not have to, with the task that had ended last."""
    calls = _calls(active)
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    work = _work(tasks)
    chosen = np.flatnonzero(_blocking(calls) & (_copies(tasks, calls) == NONE))
    if not len(work) or not len(chosen):
        return jump_frame(*(np.empty(0, dtype=np.int64) for _ in range(6)))
    last = np.searchsorted(tasks.end[work], end[chosen], side="right") - 1
    task = work[np.maximum(last, 0)]
    done = (last >= 0) & (tasks.end[task] <= start[chosen])
    task, chosen = task[done], chosen[done]
    nobody = np.full(len(task), NONE)
    return jump_frame(calls["thread"].to_numpy()[chosen], end[chosen], task, nobody, tasks.end[task], start[chosen])


def _calls(active: pl.DataFrame) -> pl.DataFrame:
    runtime = active.filter(pl.col("kind").is_in(RUNTIME_KINDS))
    return runtime.select("thread", "name", "start_ns", "end_ns", "correlation")


def _blocking(calls: pl.DataFrame) -> np.ndarray:
    names = {name: is_blocking(name) for name in calls["name"].unique()}
    return calls["name"].replace_strict(names, default=False, return_dtype=pl.Boolean).to_numpy()


def _copies(tasks: Tasks, calls: pl.DataFrame) -> Ints:
    """For each call the copy of pageable memory that it launched and waited for; -1 for other calls.

    A small copy may still be under way when the call returns: the driver keeps its bytes then.
    """
    own = np.flatnonzero((tasks.pageable == 1) & (tasks.correlation != NONE))
    places = pl.DataFrame({"correlation": tasks.correlation[own], "task": own}).unique("correlation", keep="first")
    found = calls.select(pl.col("correlation").cast(pl.Int64)).join(
        places, on="correlation", how="left", maintain_order="left"
    )
    task = found["task"].fill_null(NONE).to_numpy()
    back = (
        calls["end_ns"].to_numpy() >= tasks.start[task] + (tasks.end[task] - tasks.start[task]) // 2 if len(own) else 0
    )
    return np.where((task != NONE) & back, task, NONE)


def _work(tasks: Tasks) -> Ints:
    """The tasks for which a call may wait, by end."""
    work = np.flatnonzero(np.array([kind not in ("wait", "other") for kind in tasks.component], dtype=bool))
    return work[np.argsort(tasks.end[work], kind="stable")]


def _queued_tasks(tasks: Tasks, moments: Ints) -> Ints:
    """The number of tasks that had been launched and had not ended at each moment."""
    known = tasks.called_thread != NONE
    launched = np.searchsorted(np.sort(tasks.called_ns[known]), moments, side="right")
    ended = np.searchsorted(np.sort(tasks.end[known]), moments, side="right")
    return np.asarray(launched - ended, dtype=np.int64)
