"""What rules of dispatch share: the free time of the device while the host hands over work."""

from __future__ import annotations

from hermes.knowledge.blocking import is_copy
from hermes.knowledge.host_work import OUTSIDE
from hermes.model.host_measures import Dispatch, StepHost, SyncCall
from hermes.model.job import Rows
from hermes.model.path_measures import StepFree
from hermes.profiles.rules._host import LAUNCHING, free_for


def dispatch_cost(
    free: Rows[StepFree], host_steps: Rows[StepHost], rank: int, syncs: Rows[SyncCall] | None = None
) -> int | None:
    """Free time of the typical step in operators, Python and launches; None where free time was not explained.

    A copy that the host waits for begins late in its own call: of `syncs` that copy, the wait is no launch.
    A thread that carries a task queue out is in no call while the loop has nothing for it yet: that is the loop's time.
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
    """Free time of the device while threads that feed it were in operators, Python and launches.

    Where launches cannot be joined with their tasks, this tells what no path does.
    """
    host = next(iter(host_steps.of(rank)), None)
    return sum(part.device_free_ns or 0 for part in host.parts if part.reason in LAUNCHING) if host else 0


def silent_cost(free: Rows[StepFree], host_steps: Rows[StepHost], rank: int) -> int:
    """Free time of the typical step in which the threads that feed the device are in no recorded call.

    Nothing where no call at all is known: then the capture, not the host, has nothing to tell.
    """
    host = next(iter(host_steps.of(rank)), None)
    if host is None or host.of(OUTSIDE) == host.host_ns:
        return 0
    silent = sum(part.device_free_ns or 0 for part in host.parts if part.reason == OUTSIDE)
    return min(silent, free_for(free, rank, {OUTSIDE}))


def dispatch_of(dispatches: Rows[Dispatch], rank: int) -> Dispatch | None:
    """How the host fed the device in the rank's typical step."""
    return next(iter(dispatches.of(rank)), None)
