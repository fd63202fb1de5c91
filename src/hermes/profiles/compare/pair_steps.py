"""Pairs the ranks and steps of two runs: equal ranks, and steps at the same place in the capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes.model.comparison import RankInBothRuns, TimeChange
from hermes.model.step_measures import StepSplit
from hermes.profiles.compare.changes import TIMES, compare
from hermes.profiles.compare.run import ComparedRun


def pair_typical_steps(before: ComparedRun, after: ComparedRun) -> tuple[RankInBothRuns, ...]:
    """The typical step of each rank that both runs have, in rank order; margins allow for that many comparisons."""
    sides = [_of_ranks(run) for run in (before, after)]
    ranks = sorted(sides[0].keys() & sides[1].keys())
    found = []
    for rank in ranks:
        made = compare(sides[0][rank], sides[1][rank], compared=len(ranks))
        found.append(RankInBothRuns(rank=rank, steps=None, times=(made.step, *made.parts)))
    return tuple(found)


def pair_all_steps(before: ComparedRun, after: ComparedRun) -> tuple[RankInBothRuns, ...]:
    """Each step of one run beside the step at the same place of the other run, for each rank that both runs have.

    Step numbers differ from run to run: the first captured step stands beside the first captured step. One step says
    nothing about chance, so there is no margin.
    """
    sides = [_of_ranks(run) for run in (before, after)]
    return tuple(
        RankInBothRuns(rank=rank, steps=(old.step, new.step), times=tuple(_change(old, new, name) for name in TIMES))
        for rank in sorted(sides[0].keys() & sides[1].keys())
        for old, new in zip(_marked(sides[0][rank].splits), _marked(sides[1][rank].splits), strict=False)
    )


def _of_ranks(run: ComparedRun) -> dict[int, ComparedRun]:
    """The run cut into one run per rank: its steps, without names, findings and settings of the whole job."""
    own: dict[int, list[StepSplit]] = {}
    for split in run.splits:
        own.setdefault(split.rank, []).append(split)
    return {
        rank: replace(run, ranks=(rank,), splits=tuple(splits), names={}, findings=(), settings={}, lacks=())
        for rank, splits in own.items()
    }


def _marked(splits: Sequence[StepSplit]) -> list[StepSplit]:
    marked = [split for split in splits if split.step is not None] or splits
    return sorted(marked, key=lambda split: split.start_ns)


def _change(old: StepSplit, new: StepSplit, name: str) -> TimeChange:
    return TimeChange(
        kind="step", name=name.removesuffix("_ns"), before_ns=getattr(old, name), after_ns=getattr(new, name),
        margin_ns=None,
    )  # fmt: skip
