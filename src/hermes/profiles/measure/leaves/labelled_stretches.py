"""Operations on labelled stretches of time: cutting, intersecting and subtracting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.profiles.measure.leaves.nesting import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledStretches:
    """Stretches `[start, end)`, each with the index of the list entry that it is a part of."""

    start: Ints
    end: Ints
    of: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Ints:
        """The length of each stretch, in nanoseconds."""
        return np.asarray(self.end - self.start, dtype=np.int64)


def cut_at(start: Ints, end: Ints, moments: Ints) -> LabelledStretches:
    """The stretches, cut at each of the sorted moments that lies inside one."""
    low = np.searchsorted(moments, start, side="right")
    count = np.maximum(np.searchsorted(moments, end, side="left") - low, 0) + 1
    of = np.repeat(np.arange(len(start)), count)
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    edges = np.append(moments, np.iinfo(np.int64).max) if len(moments) else np.array([np.iinfo(np.int64).max])
    at = low[of] + number
    begin = np.where(number > 0, edges[np.maximum(at - 1, 0)], start[of])
    stop = np.where(number < count[of] - 1, edges[np.minimum(at, len(edges) - 1)], end[of])
    return LabelledStretches(start=begin, end=stop, of=of)


def found_in(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[LabelledStretches, Ints]:
    """The parts of stretches that lie in other, sorted and disjoint stretches, and the index of that other stretch."""
    low = np.searchsorted(other_end, start, side="right")
    count = np.maximum(np.searchsorted(other_start, end, side="left") - low, 0)
    of = np.repeat(np.arange(len(start)), count)
    other = np.arange(len(of)) + np.repeat(low - np.cumsum(count) + count, count)
    pieces = LabelledStretches(
        start=np.maximum(start[of], other_start[other]), end=np.minimum(end[of], other_end[other]), of=of
    )
    return pieces, other


def stretches_outside(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> LabelledStretches:
    """The parts of stretches that lie in none of the other, sorted and disjoint stretches."""
    # Free time before the first of the others has the index 0, free time after the last one the index `many`.
    many = len(other_start)
    low = np.searchsorted(other_start, start, side="right")
    count = np.maximum(np.searchsorted(other_end, end, side="left") + 1 - low, 0)
    of = np.repeat(np.arange(len(start)), count)
    free = np.arange(len(of)) + np.repeat(low - np.cumsum(count) + count, count)
    begin, stop = start[of], end[of]
    behind, before = free > 0, free < many
    begin[behind] = np.maximum(begin[behind], other_end[free[behind] - 1])
    stop[before] = np.minimum(stop[before], other_start[free[before]])
    keep = stop > begin
    return LabelledStretches(start=begin[keep], end=stop[keep], of=of[keep])
