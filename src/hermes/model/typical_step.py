"""Which step stands for a rank, and which for the job: the one definition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from hermes.model.measures import StepSplit


def typical_step(splits: Iterable[StepSplit]) -> StepSplit | None:
    """The step that stands for its rank: of those in which a device worked the one of lower median window.

    Without any of those that it measured, else of all. Everything that speaks of "the step" of a rank speaks of this
    one: a mark in which nothing ran is not it.
    """
    every = list(splits)
    measured = [split for split in every if split.compute_ns is not None]
    ordered = sorted(
        [split for split in measured if works(split)] or measured or every,
        key=lambda split: (split.window_ns, split.start_ns),
    )
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def works(split: StepSplit) -> bool:
    """Whether the device did anything in the step."""
    return any((split.compute_ns, split.comm_ns, split.copy_ns))


class JobSteps:
    """The steps of all ranks."""

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
        """How many steps each rank has."""
        return {rank: len(own) for rank, own in self._of.items()}

    @cached_property
    def marked(self) -> int:
        """Steps of the rank with most of them; 0 for a capture in which no step was marked."""
        own = (sum(split.window_kind != "capture" for split in self.of(rank)) for rank in self.ranks)
        return max(own, default=0)

    @cached_property
    def devices(self) -> frozenset[int]:
        """The ranks of which tasks of a device were recorded."""
        return frozenset(split.rank for split in self.every if split.compute_ns is not None)

    def of(self, rank: int) -> tuple[StepSplit, ...]:
        """The steps of a rank; none where it has none."""
        return self._of.get(rank, ())

    @cached_property
    def _typical(self) -> Mapping[int, StepSplit]:
        found = {rank: typical_step(own) for rank, own in self._of.items()}
        return {rank: split for rank, split in found.items() if split is not None}

    def typical(self, rank: int) -> StepSplit | None:
        """The step that stands for a rank; None without steps."""
        return self._typical.get(rank)

    @cached_property
    def typical_of_each(self) -> tuple[StepSplit, ...]:
        """The typical step of each rank, in the order of `ranks`, where it has a length."""
        return tuple(split for split in self._typical.values() if split.window_ns > 0)

    @cached_property
    def slowest(self) -> StepSplit | None:
        """The typical step of the rank where it is longest, a measured one before others; None where none has a length.

        Of equal ones that of the lowest rank.
        """
        return max(
            self.typical_of_each,
            key=lambda split: (split.compute_ns is not None, split.window_ns, -split.rank),
            default=None,
        )

    @property
    def length_ns(self) -> int:
        """How long a step of the job is: the slowest one, or without a device the mean of that rank.

        What the host does is counted as means, and calls that come in few steps make those longer. 0 without any.
        """
        split = self.slowest
        if split is None:
            return 0
        own = [one.window_ns for one in self.of(split.rank)]
        return split.window_ns if split.compute_ns is not None else sum(own) // len(own)
