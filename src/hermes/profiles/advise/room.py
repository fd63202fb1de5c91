"""How much of a step can be won at most: a device works as long as before, whatever its host does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.model.measures import StepSplit
from hermes.model.typical_step import JobSteps

TOGETHER = 5
"""So many of the first actions are replayed together: a plan of more is made after measuring again."""
_OF_HOST = ("host:", "launch:", "sync:")


def of_host(specs: Sequence[str]) -> bool:
    """Whether changes are of the host alone."""
    return all(spec.startswith(_OF_HOST) for spec in specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a step can lose at most: its length, and of that what no change of a host can touch is taken off."""

    step_ns: int
    host_ns: int
    waits_ns: int = 0
    """What the ranks spend in communication with nothing beside it: more they cannot wait for another."""

    @staticmethod
    def of(steps: JobSteps) -> Room:
        """Of the typical step; on each rank the device works as long as before, whatever its host does."""
        typical = steps.slowest
        if typical is None:
            return Room(step_ns=0, host_ns=0)
        alike = [split for split in steps.every if split.step == typical.step and split.compute_ns is not None]
        # Communication is shorter where another rank comes earlier; of one rank nobody knows that.
        alone = len({split.rank for split in steps.every}) == 1
        left = [_left_of(split, alone=alone) for split in alike]
        waits = max((split.exposed_comm_ns or 0 for split in alike), default=0)
        if typical.compute_ns is None:
            return Room(step_ns=steps.length_ns, host_ns=steps.length_ns, waits_ns=waits)
        return Room(step_ns=typical.whole_ns, host_ns=max(left, default=typical.whole_ns), waits_ns=waits)


def _left_of(split: StepSplit, *, alone: bool) -> int:
    busy = (split.compute_ns or 0) + (split.copy_exposed_ns or 0)
    return split.whole_ns - busy - ((split.exposed_comm_ns or 0) if alone else 0)
