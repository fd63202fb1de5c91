"""Free time of the device while the host launches work, for rules about dispatch."""

from __future__ import annotations

from hermes.knowledge.blocking_calls import is_copy
from hermes.knowledge.host_work import OUTSIDE
from hermes.model.host_measures import Dispatch, StepHost, SyncCall
from hermes.model.job import Rows
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import LAUNCHING, free_for


def dispatch_cost(
    free: Rows[StepFree], host_steps: Rows[StepHost], rank: int, syncs: Rows[SyncCall] | None = None
) -> int | None:
    """Free time of the typical step in operators, Python and launches; None if free time was not explained.

    A copy that the host waits for begins late in its own call: for a call in `syncs` that copies, the wait is no
    launch. The thread of a task queue is in no call while the loop has no work for it yet: that time is the loop's.
    """
    parts = [part for step in free if step.rank == rank for part in step.parts]
    if not parts:
        return None
    waits = sum(row.idle_ns for row in (syncs.of(rank) if syncs else ()) if any(map(is_copy, row.names)))
    launches = max(0, sum(part.ns for part in parts if part.component == "launch") - waits)
    queue = free_for(free, rank, {OUTSIDE}) - silent_cost(free, host_steps, rank)
    told = free_for(free, rank, LAUNCHING) + launches + queue
    untold = sum(part.ns for part in parts if part.component == "unexplained")
    return told + min(untold, max(0, _beside_free(host_steps, rank) - told))


def _beside_free(host_steps: Rows[StepHost], rank: int) -> int:
    """Free time of the device while its dispatching threads were in operators, Python and launches.

    This time is used if launches cannot be joined with their tasks, so that there is no path.
    """
    host = next(iter(host_steps.of(rank)), None)
    return sum(part.device_free_ns or 0 for part in host.parts if part.reason in LAUNCHING) if host else 0


def silent_cost(free: Rows[StepFree], host_steps: Rows[StepHost], rank: int) -> int:
    """Free time of the typical step in which the dispatching threads are in no recorded call.

    The result is 0 if no call was recorded at all: then the capture, not the host, is the reason.
    """
    host = next(iter(host_steps.of(rank)), None)
    if host is None or host.of(OUTSIDE) == host.host_ns:
        return 0
    silent = sum(part.device_free_ns or 0 for part in host.parts if part.reason == OUTSIDE)
    return min(silent, free_for(free, rank, {OUTSIDE}))


def dispatch_of(dispatches: Rows[Dispatch], rank: int) -> Dispatch | None:
    """How the host launched work in the rank's typical step."""
    return next(iter(dispatches.of(rank)), None)
