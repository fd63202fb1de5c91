"""Free time of the device while the host launches work, for rules about dispatch."""

from __future__ import annotations

from hermes.model.host_measures import Dispatch
from hermes.model.job import Job, Rows
from hermes.model.leaf import LAUNCHES


def dispatch_cost(job: Job, rank: int) -> int | None:
    """The rank's time a step in launches and in operators that launch, in ns; None if no leaf was measured.

    A line of Python that keeps the device waiting has rules of its own.
    """
    return job.room_ns(rank, LAUNCHES)


def dispatch_of(dispatches: Rows[Dispatch], rank: int) -> Dispatch | None:
    """How the host launched work in the rank's typical step."""
    return next(iter(dispatches.of(rank)), None)
