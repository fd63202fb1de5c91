"""What rules of dispatch share: the free time of the device while the host hands over work."""

from __future__ import annotations

from hermes.analyze.host_measures import Dispatch
from hermes.diagnose.rule import Measures
from hermes.diagnose.rules._host import LAUNCHING, free_for
from hermes.knowledge.host_work import OUTSIDE


def dispatch_cost(measures: Measures, rank: int) -> int | None:
    """Free time of the typical step in operators, Python and launches; None where free time was not explained.

    A thread that carries a task queue out is in no call while the loop has nothing for it yet: that is the loop's time.
    """
    parts = [part for step in measures.free if step.rank == rank for part in step.parts]
    if not parts:
        return None
    launches = sum(part.ns for part in parts if part.component == "launch")
    queue = free_for(measures, rank, {OUTSIDE}) - silent_cost(measures, rank)
    return free_for(measures, rank, LAUNCHING) + launches + queue


def silent_cost(measures: Measures, rank: int) -> int:
    """Free time of the typical step in which the threads that feed the device are in no recorded call.

    Nothing where no call at all is known: then the capture, not the host, has nothing to tell.
    """
    host = next((row for row in measures.host.steps if row.rank == rank), None)
    if host is None or host.of(OUTSIDE) == host.host_ns:
        return 0
    free = sum(part.device_free_ns or 0 for part in host.parts if part.reason == OUTSIDE)
    return min(free, free_for(measures, rank, {OUTSIDE}))


def dispatch_of(measures: Measures, rank: int) -> Dispatch | None:
    """How the host fed the device in the rank's typical step."""
    return next((row for row in measures.host.dispatch if row.rank == rank), None)
