"""Stretches of time with what they are: cut at moments, and searched for in other stretches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hermes.base.intervals import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """Stretches `[start, end)`, each with the place in the list that it is a part of."""

    start: Ints
    end: Ints
    of: Ints

    def __len__(self) -> int:
        return len(self.start)

    @property
    def lengths(self) -> Ints:
        """How long each is."""
        return np.asarray(self.end - self.start, dtype=np.int64)


class Overlay:
    """Stretches that may lie on each other: how long they lie on another stretch, all together. O(log n) each."""

    def __init__(self, start: Ints, end: Ints) -> None:
        self._starts, self._ends = np.sort(start), np.sort(end)
        self._sums = tuple(np.append([0], np.cumsum(edges)) for edges in (self._starts, self._ends))

    def on(self, start: Ints, ns: Ints) -> Ints:
        """For stretches of that length."""
        return self._before(start + ns) - self._before(start)

    def _before(self, moments: Ints) -> Ints:
        """How long they had lasted by each moment: those that began, less what lies behind their ends."""
        lasted = np.zeros(len(moments), dtype=np.int64)
        for edges, sums, sign in ((self._starts, self._sums[0], 1), (self._ends, self._sums[1], -1)):
            count = np.searchsorted(edges, moments)
            lasted += sign * (count * moments - sums[count])
        return lasted


def cut_at(start: Ints, end: Ints, moments: Ints) -> Pieces:
    """The stretches, cut where one of the moments, which are in order, lies inside."""
    low = np.searchsorted(moments, start, side="right")
    count = np.maximum(np.searchsorted(moments, end, side="left") - low, 0) + 1
    of = np.repeat(np.arange(len(start)), count)
    number = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    edges = np.append(moments, np.iinfo(np.int64).max) if len(moments) else np.array([np.iinfo(np.int64).max])
    at = low[of] + number
    begin = np.where(number > 0, edges[np.maximum(at - 1, 0)], start[of])
    stop = np.where(number < count[of] - 1, edges[np.minimum(at, len(edges) - 1)], end[of])
    return Pieces(start=begin, end=stop, of=of)


def found_in(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> tuple[Pieces, Ints]:
    """The parts of stretches that lie in others, which are in order and apart, and the place of that other."""
    low = np.searchsorted(other_end, start, side="right")
    count = np.maximum(np.searchsorted(other_start, end, side="left") - low, 0)
    of = np.repeat(np.arange(len(start)), count)
    other = np.arange(len(of)) + np.repeat(low - np.cumsum(count) + count, count)
    pieces = Pieces(start=np.maximum(start[of], other_start[other]), end=np.minimum(end[of], other_end[other]), of=of)
    return pieces, other


def left_of(start: Ints, end: Ints, other_start: Ints, other_end: Ints) -> Pieces:
    """The parts of stretches that lie in none of the others, which are in order and apart."""
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    pieces, _ = found_in(start, end, np.append([low], other_end), np.append(other_start, [high]))
    keep = pieces.end > pieces.start
    return Pieces(start=pieces.start[keep], end=pieces.end[keep], of=pieces.of[keep])
