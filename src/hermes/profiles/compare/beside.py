"""Two runs side by side: each rank with the same rank, each step with the one of the same place in its capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hermes.model.comparison import Beside, Change
from hermes.model.measures import StepSplit
from hermes.profiles.compare.changes import TIMES, compare
from hermes.profiles.compare.run import Run


def by_rank(before: Run, after: Run) -> tuple[Beside, ...]:
    """The typical step of each rank that both runs have, in rank order; a change counts for so many ranks at once."""
    sides = [_of_ranks(run) for run in (before, after)]
    ranks = sorted(sides[0].keys() & sides[1].keys())
    found = []
    for rank in ranks:
        made = compare(sides[0][rank], sides[1][rank], compared=len(ranks))
        found.append(Beside(rank=rank, steps=None, times=(made.step, *made.parts)))
    return tuple(found)


def by_step(before: Run, after: Run) -> tuple[Beside, ...]:
    """Each step of one run with the step of the same place of the other, of each rank that both have.

    Numbers of steps differ from run to run: the first that was captured stands beside the first. One step tells nothing
    of chance, so there is no margin.
    """
    sides = [_of_ranks(run) for run in (before, after)]
    return tuple(
        Beside(rank=rank, steps=(old.step, new.step), times=tuple(_change(old, new, name) for name in TIMES))
        for rank in sorted(sides[0].keys() & sides[1].keys())
        for old, new in zip(_marked(sides[0][rank].splits), _marked(sides[1][rank].splits), strict=False)
    )


def _of_ranks(run: Run) -> dict[int, Run]:
    """The steps of a run by rank, without what is of all ranks."""
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


def _change(old: StepSplit, new: StepSplit, name: str) -> Change:
    return Change(
        kind="step", name=name.removesuffix("_ns"), before_ns=getattr(old, name), after_ns=getattr(new, name),
        margin_ns=None,
    )  # fmt: skip
