"""Finds steps that take much longer than the typical step, and what they do more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hermes.model.leaf import Leaf
from hermes.model.leaf_time import LeafTime
from hermes.model.limit import Limit
from hermes.model.step_measures import StepSplit
from hermes.model.typical_step import JobSteps
from hermes.profiles.measure.leaves.leaves_of_rank import LONG_STEP

LONG = Limit(value=0.1, unit="of the time of all steps", source="docs/tree.md: a tenth always counts")
_LEAST = 3
"""The least number of steps of which one can be called long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongSteps:
    """The long steps of the rank whose own work makes them long.

    `steps` are their numbers, of `marked` steps. They take `times` as long as the typical step in the mean, and `share`
    of the time of all steps. `leaf` is what they do more than the typical step, for `extra_ns` each.
    """

    rank: int
    steps: tuple[int, ...]
    marked: int
    times: float
    share: float
    leaf: Leaf
    extra_ns: int


def long_steps(steps: JobSteps, times: Sequence[LeafTime]) -> LongSteps | None:
    """The long steps of a job, if they take a tenth of its time; None without such steps.

    Steps of several ranks are long together, for they wait for one another: the rank is named that works longest more.
    """
    by_rank: dict[int, list[LeafTime]] = {}
    for row in times:
        by_rank.setdefault(row.rank, []).append(row)
    found = [one for rank, rows in sorted(by_rank.items()) if (one := _of_rank(steps, rank, rows)) is not None]
    return max(
        found, key=lambda one: (one.leaf is not Leaf.WAIT, one.extra_ns * len(one.steps), -one.rank), default=None
    )


def _of_rank(steps: JobSteps, rank: int, rows: Sequence[LeafTime]) -> LongSteps | None:
    own = [split for split in steps.of(rank) if split.step is not None and split.window_kind != "capture"]
    typical = steps.typical(rank)
    if typical is None or len(own) < _LEAST:
        return None
    slow = [split for split in own if split.window_ns >= LONG_STEP * typical.window_ns]
    whole, share = _length(slow), _length(slow) / max(_length(own), 1)
    if share < LONG.value:
        return None
    more = Counter[Leaf]()
    for row in rows:
        if row.leaf.part != "outside":
            more[row.leaf] += row.long_ns - row.step_ns * len(slow)
    # What a rank does itself comes before its waits: those are why the steps of other ranks are long.
    leaf, ns = max(more.items(), key=lambda one: (one[0] is not Leaf.WAIT and one[1] > 0, one[1], one[0]))
    if ns <= 0:
        return None
    return LongSteps(
        rank=rank, steps=tuple(split.step for split in slow if split.step is not None), marked=len(own),
        times=whole / len(slow) / typical.window_ns, share=share, leaf=leaf, extra_ns=ns // len(slow),
    )  # fmt: skip


def _length(splits: Sequence[StepSplit]) -> int:
    return sum(split.window_ns for split in splits)
