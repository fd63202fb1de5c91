"""Finds the line inside a function at which a leaf's time passes, by samples of the stepping thread.

A recorded frame names the line at which its function begins. A frame that was open when the capture began names any
line of its function: of a loop in a script, mostly the line of `optimizer.step()`.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from hermes.knowledge.user_code import Frame, frame_of
from hermes.profiles.measure.leaves.nesting import NONE, Ints

Function = tuple[str, str, int]
"""A file, the name of a function, and its place among the functions of that name in the file."""


class SampledLines:
    """The samples of a thread (`start_ns`, `line`, `ns`), for places that are indices into `names`.

    `opened` are the names of the frames that were open when the capture began.
    """

    def __init__(self, samples: pl.DataFrame, names: Sequence[str], opened: Collection[str]) -> None:
        self._when, self._ns = samples["start_ns"].to_numpy(), samples["ns"].to_list()
        frames = {place: frame_of(name) for place, name in enumerate(names)} if samples.height else {}
        # A function that was open does not tell where it begins, nor does a generator that is resumed.
        loops = {(frame.file, frame.function) for frame in map(frame_of, opened) if frame}
        begins: dict[tuple[str, str], set[int]] = {}
        for frame in frames.values():
            if frame and (frame.file, frame.function) not in loops:
                begins.setdefault((frame.file, frame.function), set()).add(frame.line)
        self._begins = {function: sorted(lines) for function, lines in begins.items()}
        self._functions = {place: self._function(frame) for place, frame in frames.items() if frame}
        self._seen = [
            (frame.said, self._function(frame)) if frame else None for frame in map(frame_of, samples["line"])
        ]

    def _function(self, frame: Frame) -> Function:
        """The function of a frame; functions of one name in a file are told apart by the lines at which they begin."""
        return frame.file, frame.function, bisect(self._begins.get((frame.file, frame.function), ()), frame.line)

    def within(self, start: Ints, ns: Ints, leaf: Ints) -> LeafLines:
        """The samples by leaf, for stretches that do not overlap."""
        found: dict[tuple[int, Function], Counter[str]] = {}
        if not self._functions or not len(start):
            return LeafLines(lines={}, functions={})
        order = np.argsort(start, kind="stable")
        part = order[np.maximum(np.searchsorted(start[order], self._when, side="right") - 1, 0)]
        hit = (self._when >= start[part]) & (self._when < start[part] + ns[part])
        for number, seen, stands in zip(np.where(hit, leaf[part], NONE).tolist(), self._seen, self._ns, strict=True):
            if seen:
                said, function = seen
                for way in {number, NONE}:
                    found.setdefault((way, function), Counter())[said] += stands
        return LeafLines(lines=found, functions=self._functions)


@dataclass(frozen=True, slots=True)
class LeafLines:
    """The sampled time of each line in ns, by leaf (-1: in any) and function; `functions` are those of the places."""

    lines: Mapping[tuple[int, Function], Counter[str]]
    functions: Mapping[int, Function]

    def line_of(self, leaf: int, place: int) -> str | None:
        """The line of a place with most sampled time of a leaf, else with most of all; None if there is no sample."""
        function = self.functions.get(place)
        if function is None:
            return None
        seen = self.lines.get((leaf, function)) or self.lines.get((NONE, function))
        return min(seen, key=lambda line: (-seen[line], line)) if seen else None
