"""Computes the upper bound of a gain: host changes cannot make a step shorter than the busy time of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps

TOGETHER = 5
"""The number of first actions that are replayed together: you plan further actions after measuring again."""
_OF_HOST = ("host:", "launch:", "sync:")


def only_host_changes(specs: Sequence[str]) -> bool:
    """Whether all these changes concern only the host."""
    return all(spec.startswith(_OF_HOST) for spec in specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class GainBound:
    """The most ns that a step can lose: its length, or for host changes its length less the device's busy time."""

    step_ns: int
    host_ns: int
    waits_ns: int = 0
    """Exposed communication of the ranks in ns, the longest time for which ranks can wait for each other."""

    @staticmethod
    def of(steps: JobSteps) -> GainBound:
        """The bounds of the job's typical step. No change of a host shortens the device's work on a rank."""
        typical = steps.slowest
        if typical is None:
            return GainBound(step_ns=0, host_ns=0)
        alike = [split for split in steps.every if split.step == typical.step and split.compute_ns is not None]
        # Communication is shorter if another rank comes earlier; a capture of one rank cannot tell.
        alone = len({split.rank for split in steps.every}) == 1
        left = [_left_of(split, alone=alone) for split in alike]
        waits = max((split.exposed_comm_ns or 0 for split in alike), default=0)
        if typical.compute_ns is None:
            return GainBound(step_ns=steps.length_ns, host_ns=steps.length_ns, waits_ns=waits)
        return GainBound(step_ns=typical.window_ns, host_ns=max(left, default=typical.window_ns), waits_ns=waits)


def _left_of(split: StepSplit, *, alone: bool) -> int:
    busy = (split.compute_ns or 0) + (split.copy_exposed_ns or 0)
    return split.window_ns - busy - ((split.exposed_comm_ns or 0) if alone else 0)
