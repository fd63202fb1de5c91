"""What rules of dispatch share: the free time of the device while the host hands over work."""

from __future__ import annotations

from hermes.analyze.host_measures import Dispatch
from hermes.diagnose.rule import Measures
from hermes.diagnose.rules._host import LAUNCHING, free_for


def dispatch_cost(measures: Measures, rank: int) -> int | None:
    """Free time of the typical step in operators, Python and launches; None where free time was not explained."""
    parts = [part for step in measures.free if step.rank == rank for part in step.parts]
    if not parts:
        return None
    return free_for(measures, rank, LAUNCHING) + sum(part.ns for part in parts if part.component == "launch")


def dispatch_of(measures: Measures, rank: int) -> Dispatch | None:
    """How the host fed the device in the rank's typical step."""
    return next((row for row in measures.host.dispatch if row.rank == rank), None)
