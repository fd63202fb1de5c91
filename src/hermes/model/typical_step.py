"""Chooses the typical step: the step that stands for a rank, and the step that stands for the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from hermes.model.step_measures import StepSplit


def typical_step(splits: Iterable[StepSplit]) -> StepSplit | None:
    """The typical step of a rank: of the steps with device work, the step of lower median window.

    Without device work it is chosen among steps that the host measured, else among all steps. "The step" of a rank
    always means the typical step. A mark in which nothing ran does not count.
    """
    every = list(splits)
    measured = [split for split in every if split.compute_ns is not None]
    ordered = sorted(
        [split for split in measured if _device_works(split)] or measured or every,
        key=lambda split: (split.window_ns, split.start_ns),
    )
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _device_works(split: StepSplit) -> bool:
    """Whether the device computed, communicated or copied in the step."""
    return any((split.compute_ns, split.comm_ns, split.copy_ns))


class JobSteps:
    """The steps of all ranks of a job, with the typical step of each rank."""

    def __init__(self, splits: Iterable[StepSplit]) -> None:
        self.every = tuple(splits)
        own: dict[int, list[StepSplit]] = {}
        for split in self.every:
            own.setdefault(split.rank, []).append(split)
        self._of = {rank: tuple(mine) for rank, mine in own.items()}

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have steps, in the order in which they were read."""
        return tuple(self._of)

    @cached_property
    def counts(self) -> Mapping[int, int]:
        """The number of steps of each rank."""
        return {rank: len(own) for rank, own in self._of.items()}

    @cached_property
    def marked(self) -> int:
        """The largest number of marked steps of any rank; 0 for a capture in which no step was marked."""
        own = (sum(split.window_kind != "capture" for split in self.of(rank)) for rank in self.ranks)
        return max(own, default=0)

    @cached_property
    def devices(self) -> frozenset[int]:
        """The ranks with recorded device tasks."""
        return frozenset(split.rank for split in self.every if split.compute_ns is not None)

    def of(self, rank: int) -> tuple[StepSplit, ...]:
        """The steps of one rank; empty if the rank has no steps."""
        return self._of.get(rank, ())

    @cached_property
    def _typical(self) -> Mapping[int, StepSplit]:
        found = {rank: typical_step(own) for rank, own in self._of.items()}
        return {rank: split for rank, split in found.items() if split is not None}

    def typical(self, rank: int) -> StepSplit | None:
        """The typical step of one rank; None if the rank has no steps."""
        return self._typical.get(rank)

    @cached_property
    def typical_of_each(self) -> tuple[StepSplit, ...]:
        """The typical step of each rank, in the order of `ranks`, if the step has a length."""
        return tuple(split for split in self._typical.values() if split.window_ns > 0)

    @cached_property
    def slowest(self) -> StepSplit | None:
        """The longest typical step of any rank, measured steps before others; None if no step has a length.

        Of equally long steps, the step of the lowest rank is taken.
        """
        return max(
            self.typical_of_each,
            key=lambda split: (split.compute_ns is not None, split.window_ns, -split.rank),
            default=None,
        )

    @property
    def length_ns(self) -> int:
        """The length of a job's step in ns: the mean over all steps of the rank with the slowest typical step.

        The leaves of the time tree are such means, too; calls that come in few steps make the mean longer. The length
        is 0 if there is no step.
        """
        split = self.slowest
        if split is None:
            return 0
        own = [one.window_ns for one in self.of(split.rank)]
        return sum(own) // len(own)
