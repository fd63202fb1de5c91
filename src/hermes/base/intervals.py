"""Integer interval algebra: unions, intersections and differences of half-open intervals, exact to the nanosecond.

A set of intervals is a pair of equally long `int64` arrays (starts, ends), half-open `[start, end)`. A *flat* set is
sorted, disjoint and free of empty intervals; every function returns flat sets and accepts any set. O(n log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
_MOST_SETS = 62


@dataclass(frozen=True, slots=True)
class Intervals:
    """A flat set of half-open intervals; build it with `flat`."""

    starts: Ints
    ends: Ints

    @property
    def total(self) -> int:
        """The sum of the lengths of all intervals."""
        return int((self.ends - self.starts).sum())

    @property
    def span(self) -> tuple[int, int] | None:
        """First start and last end, or None when the set is empty."""
        return (int(self.starts[0]), int(self.ends[-1])) if len(self.starts) else None

    def __len__(self) -> int:
        return len(self.starts)

    def __or__(self, other: Intervals) -> Intervals:
        return union_of_intervals(np.concatenate([self.starts, other.starts]), np.concatenate([self.ends, other.ends]))

    def __and__(self, other: Intervals) -> Intervals:
        return _common(self, other.starts, other.ends)

    def __sub__(self, other: Intervals) -> Intervals:
        return _common(self, np.append(_FIRST, other.ends), np.append(other.starts, _LAST))

    def lasted(self, moments: Ints) -> Ints:
        """For each moment, how long the intervals had lasted up to then, all together; O(log n) for each moment."""
        lengths = np.concatenate([[0], np.cumsum(self.ends - self.starts)])
        place = np.searchsorted(self.starts, moments, side="right")
        if not len(self.starts):
            return np.zeros(len(place), dtype=np.int64)
        under_way = np.where(place > 0, np.maximum(self.ends[np.maximum(place - 1, 0)] - moments, 0), 0)
        return np.asarray(lengths[place] - under_way, dtype=np.int64)

    def clip(self, start: int, end: int) -> Intervals:
        """The part of the set inside `[start, end)`; O(log n) and the size of the result."""
        if start >= end:
            return EMPTY
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left"))
        if first >= last:
            return EMPTY
        return Intervals(np.maximum(self.starts[first:last], start), np.minimum(self.ends[first:last], end))


def union_of_intervals(starts: Ints, ends: Ints) -> Intervals:
    """The union of any intervals as a flat set; an interval with `end <= start` is empty and left out."""
    keep = ends > starts
    starts, ends = starts[keep].astype(np.int64), ends[keep].astype(np.int64)
    if not len(starts):
        return EMPTY
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.empty(len(starts), dtype=bool)
    first[0] = True
    np.greater(starts[1:], reach[:-1], out=first[1:])
    last = np.append(np.flatnonzero(first)[1:] - 1, len(starts) - 1)
    return Intervals(starts[first], reach[last])


def covered_lengths(inside: Intervals, starts: Ints, ends: Ints) -> Ints:
    """For each interval `[start, end)`, how much lies in a flat set; 0 where `end <= start`. O((n + m) log n)."""
    length: Ints = np.maximum(inside.lasted(ends) - inside.lasted(starts), 0)
    return length


def window(start: int, end: int) -> Intervals:
    """The set that holds only the interval `[start, end)`."""
    return union_of_intervals(np.array([start], dtype=np.int64), np.array([end], dtype=np.int64))


def exclusive(sets: Sequence[Intervals], start: int, end: int) -> dict[int, int]:
    """How long each combination of the sets held in `[start, end)`: bit `i` of a key stands for `sets[i]`.

    One sweep over all edges. Key 0 is the time in which no set held. A combination that never held has no key, and the
    values add up to `end - start`. At most 62 sets, since a key is one 64-bit integer; raises `ValueError` for more.
    """
    if len(sets) > _MOST_SETS:
        raise ValueError(f"{len(sets)} sets do not fit the bits of a key: at most {_MOST_SETS}")
    if start >= end:
        return {}
    parts = [own.clip(start, end) for own in sets]
    edges = [np.array([start, end], dtype=np.int64)]
    bits = [np.zeros(2, dtype=np.int64)]
    for bit, own in enumerate(parts):
        edges += [own.starts, own.ends]
        bits += [np.full(2 * len(own), 1 << bit, dtype=np.int64)]
    moments, toggled = np.concatenate(edges), np.concatenate(bits)
    order = np.argsort(moments, kind="stable")
    moments, held = moments[order], np.bitwise_xor.accumulate(toggled[order])[:-1]
    lengths = moments[1:] - moments[:-1]
    keys, places = np.unique(held[lengths > 0], return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, places, lengths[lengths > 0])
    return dict(zip(keys.tolist(), sums.tolist(), strict=True))


def _common(own: Intervals, starts: Ints, ends: Ints) -> Intervals:
    """The intersection of `own` with other disjoint, sorted intervals; O(n log m) and the size of the result.

    The intersection of two flat sets is flat: a gap of one of the sets lies between any two parts.
    """
    first = np.searchsorted(ends, own.starts, side="right")
    count = np.searchsorted(starts, own.ends, side="left") - first
    mine = np.repeat(np.arange(len(own)), count)
    other = np.arange(len(mine)) + np.repeat(first - np.cumsum(count) + count, count)
    return Intervals(np.maximum(own.starts[mine], starts[other]), np.minimum(own.ends[mine], ends[other]))


_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
EMPTY = Intervals(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
