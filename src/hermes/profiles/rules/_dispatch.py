"""Free time of the device while the host launches work, for rules about dispatch."""

from __future__ import annotations

from hermes.model.fault import Fault
from hermes.model.host_measures import Dispatch
from hermes.model.job import Job, Rows


def dispatch_cost(job: Job, rank: int) -> int | None:
    """The rank's time a step in leaves of launching work, in ns; None if no leaf was measured."""
    return job.room_ns(rank, Fault.DISPATCH.explains)


def dispatch_of(dispatches: Rows[Dispatch], rank: int) -> Dispatch | None:
    """How the host launched work in the rank's typical step."""
    return next(iter(dispatches.of(rank)), None)
