"""Measures how far two recorded tensors are apart: from their elements, their statistics, or their fingerprints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hermes.base.usable_cores import processes
from hermes.precision.read.tensors import Array, Files, numbers
from hermes.precision.recorded_step import STATS, RecordedStep, RecordedValue

_BLOCK = 1 << 13
"""Elements compared at once: they fit in the processor's cache, and are too few to use further cores."""
_MANY = 1 << 24
"""From this many elements on, processes share a comparison: starting processes takes a fortieth of a second."""
_ROWS = 1 << 12
"""Rows of statistics that are compared at once."""
_RESOLUTION = 2.0**-21
"""The share of the norm by which float32 sums in the statistics may be off: smaller distances are not significant."""
Pair = tuple[int, int]


class Distance(NamedTuple):
    """The distance between a golden and a target tensor. Lengths are Euclidean norms; None if not recorded.

    `known` says what the distance was computed from: elements, statistics, order-free statistics, fingerprint, or none.
    """

    known: str
    apart: float = 0.0
    """The norm of the difference of the elements."""
    size: float = 0.0
    """The norm of the golden tensor."""
    nan_golden: float = 0.0
    """The number of golden elements that are NaN or infinite."""
    nan_target: float = 0.0
    what: str = ""
    """What differs, if not the values: `shape`, `dtype` or `fingerprint`."""
    cosine: float | None = None
    scale: float | None = None
    """The factor, if the target is a multiple of the golden tensor except for a hundredth of the difference."""
    largest: float | None = None
    changed: float | None = None
    """The share of elements that differ at all."""

    @property
    def relative(self) -> float:
        """The distance as a share of the golden tensor's norm."""
        if self.apart == 0:
            return 0.0
        return self.apart / self.size if self.size > 0 else math.inf

    @property
    def equal(self) -> bool:
        """Whether no bit differs, as far as was recorded."""
        return self.known != "none" and self.apart == 0 and self.nan_golden == self.nan_target and not self.what


NONE = Distance("none")


class Distances:
    """Distances of pairs of values of two steps, each computed once: statistics at once, elements by processes."""

    def __init__(self, golden: RecordedStep, target: RecordedStep, files: Files, jobs: int = 1) -> None:
        self._golden = golden
        self._target = target
        self._files = files
        self._jobs = jobs
        self._known: dict[Pair, Distance] = {}

    def prepare(self, pairs: Iterable[Pair]) -> None:
        """Compute the distances of all pairs with statistics at once, and those of pairs with many elements."""
        first, second = self._golden.values, self._target.values
        each = list(dict.fromkeys(pairs))
        plain = [pair for pair in each if _plain(first[pair[0]], second[pair[1]])]
        for start in range(0, len(plain), _ROWS):
            part = plain[start : start + _ROWS]
            tables = _table(first, [one for one, _ in part]), _table(second, [two for _, two in part])
            self._known.update(zip(part, _of_statistics(*tables), strict=True))
        elements = [pair for pair in each if first[pair[0]].data and second[pair[1]].data]
        if self._jobs > 1 and sum(first[one].count for one, _ in elements) > _MANY:
            self._share(elements)

    def _share(self, pairs: list[Pair]) -> None:
        """Compute the distances of pairs in several processes, including this one."""
        first, *others = (pairs[at :: self._jobs] for at in range(self._jobs))
        with processes(len(others), start=_begin, arguments=(self._golden, self._target)) as pool:
            futures = [pool.submit(_part, part) for part in others]
            for pair in first:
                self.of(*pair)
            for part, future in zip(others, futures, strict=True):
                found, unread = future.result()
                self._known.update(zip(part, found, strict=True))
                self._files.unread |= unread

    @property
    def unread(self) -> set[Path]:
        """The files that should hold a tensor and do not."""
        return self._files.unread

    def of(self, golden: int, target: int) -> Distance:
        """The distance between a golden and a target value."""
        pair = (golden, target)
        found = self._known.get(pair)
        if found is None:
            self._known[pair] = NONE  # ends a recursion of values that refer to themselves
            found = self._known[pair] = self._find(golden, target)
        return found

    def _find(self, golden: int, target: int) -> Distance:
        one, two = self._golden.values[golden], self._target.values[target]
        if one.count != two.count:
            return Distance("none", what="shape")
        found = self._by_elements(golden, target)
        if found is None:
            found = self._by_record(one, two)
        if one.shape != two.shape:
            return found._replace(what="shape")
        return found if one.dtype == two.dtype else found._replace(what="dtype")

    def _by_record(self, one: RecordedValue, two: RecordedValue) -> Distance:
        if one.view and two.view:
            if one.view[1:] != two.view[1:]:
                return NONE  # other elements or another order: the base does not tell
            base = self.of(one.view.base, two.view.base)
            return base if base.what == "fingerprint" else base._replace(what="")
        first, second = self._resolved(self._golden, one), self._resolved(self._target, two)
        if first.mark and second.mark:
            if first.mark == second.mark:
                return Distance("fingerprint")
            return Distance("fingerprint", apart=math.inf, size=1.0, what="fingerprint")
        if first.stats is None or second.stats is None or first.count != second.count:
            return NONE
        rows = [_table((first,), [0]), _table((second,), [0])]
        if first is one and second is two and first.shape == second.shape:
            return _of_statistics(*rows)[0]
        return _of_statistics(*(row[:, :STATS] for row in rows))[0]._replace(known="order-free statistics")

    @staticmethod
    def _resolved(step: RecordedStep, value: RecordedValue) -> RecordedValue:
        """The value itself, or its base value if a view shows all elements of the base."""
        depth = 0
        while value.view is not None and value.stats is None and not value.mark and depth < 64:
            base = step.values[value.view.base]
            if base.count != value.count:
                return value
            value, depth = base, depth + 1
        return value

    def _by_elements(self, golden: int, target: int) -> Distance | None:
        first = self._files.flat(self._golden, golden)
        second = self._files.flat(self._target, target)
        if first is None or second is None or len(first[0]) != len(second[0]):
            return None
        return distance_of_elements(first, second)


_beside: list[Distances] = []
"""The `Distances` object in a helper process."""


def _begin(golden: RecordedStep, target: RecordedStep) -> None:
    _beside[:] = [Distances(golden, target, Files())]


def _part(pairs: list[Pair]) -> tuple[list[Distance], set[Path]]:
    """The distances of pairs, and the files that could not be read, computed in a helper process."""
    distances = _beside[0]
    return [distances.of(*pair) for pair in pairs], distances.unread


def _plain(one: RecordedValue, two: RecordedValue) -> bool:
    return (
        one.stats is not None and two.stats is not None and one.shape == two.shape and one.dtype == two.dtype
        and not (one.data and two.data)
    )  # fmt: skip


def between(first: RecordedValue, second: RecordedValue) -> float | None:
    """The distance between two values of one side, by their statistics; None if the statistics do not tell."""
    if (
        first.stats is None
        or second.stats is None
        or len(first.stats) != len(second.stats)
        or first.shape != second.shape
    ):
        return None
    return _of_statistics(*(_table((one,), [0]) for one in (first, second)))[0].apart


def _table(values: tuple[RecordedValue, ...], places: list[int]) -> npt.NDArray[np.float64]:
    rows = [values[place].stats or () for place in places]
    lengths = set(map(len, rows))
    width = max(lengths, default=STATS)
    if len(lengths) == 1:
        every = itertools.chain.from_iterable(rows)
        return np.fromiter(every, np.float64, len(rows) * width).reshape(len(rows), width)
    table = np.full((len(rows), width), np.nan)
    for at, row in enumerate(rows):
        table[at, : len(row)] = row
    return table


def _of_statistics(golden: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> list[Distance]:
    """Lower bounds of distances from the statistics, and estimates of distances if there are signed sums."""
    width = min(golden.shape[1], target.shape[1])
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(target[:, :width] - golden[:, :width])
        bounds = np.nan_to_num(np.nanmax(np.nan_to_num(difference[:, [0, 1, 3]], nan=0.0), axis=1), posinf=math.inf)
        apart = bounds
        if width > STATS:
            apart = np.maximum(bounds, np.sqrt(np.nansum(difference[:, STATS:] ** 2, axis=1)))
        size = np.nan_to_num(golden[:, 3], nan=0.0, posinf=0.0)
        # Float32 sums in the statistics may differ by this much even if no element differs.
        floor = _RESOLUTION * np.maximum(size, np.nan_to_num(target[:, 3], posinf=0.0))
        exact = (difference == 0) | (np.isnan(golden[:, :width]) & np.isnan(target[:, :width]))
        same = exact.all(axis=1) | (golden[:, :width] == target[:, :width]).all(axis=1)
        apart = np.where(same, 0.0, np.maximum(apart, floor))
    bad = [np.nan_to_num(table[:, 4] + table[:, 5]) for table in (golden, target)]
    new = tuple.__new__
    return [
        new(Distance, ("statistics", a, s, n, m, "", None, None, None, None))
        for a, s, n, m in zip(apart.tolist(), size.tolist(), bad[0].tolist(), bad[1].tolist(), strict=True)
    ]


def distance_of_elements(golden: tuple[Array, str], target: tuple[Array, str]) -> Distance:
    """The distance from the elements, computed in blocks that fit in the processor's cache."""
    first, second = golden[0], target[0]
    same = golden[1] == target[1] and _same_bits(first, second)
    if same and (quick := _squares(first)) is not None:
        return Distance("elements", 0.0, math.sqrt(quick), 0.0, 0.0, cosine=1.0)
    aa = bb = ab = dd = largest = 0.0
    changed = 0
    bad = [0.0, 0.0]
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(first), _BLOCK):
            a = numbers(first[start : start + _BLOCK], golden[1])
            if same:
                aa += float(a.dot(a))
                continue
            b = numbers(second[start : start + _BLOCK], target[1])
            d = b - a
            sums = float(a.dot(a)), float(b.dot(b)), float(a.dot(b)), float(d.dot(d))
            if not math.isfinite(sum(sums)):
                fine = np.isfinite(a) & np.isfinite(b)
                bad[0] += float((~np.isfinite(a)).sum())
                bad[1] += float((~np.isfinite(b)).sum())
                a, b = np.where(fine, a, 0.0), np.where(fine, b, 0.0)
                d = b - a
                sums = float(a.dot(a)), float(b.dot(b)), float(a.dot(b)), float(d.dot(d))
            aa, bb, ab, dd = aa + sums[0], bb + sums[1], ab + sums[2], dd + sums[3]
            largest = max(largest, float(d.max()), -float(d.min()))
            changed += int(np.count_nonzero(d != 0))
    if same:
        if not math.isfinite(aa):
            wrong = float((~np.isfinite(numbers(first, golden[1]))).sum())
            bad, aa = [wrong, wrong], float(np.nansum(_finite(numbers(first, golden[1])) ** 2))
        return Distance("elements", 0.0, math.sqrt(aa), bad[0], bad[1], cosine=1.0)
    scale = ab / aa if aa > 0 else None
    if scale is not None and (scale == 1 or bb - scale * ab > 1e-4 * dd):
        scale = None
    cosine = ab / math.sqrt(aa * bb) if aa > 0 and bb > 0 else None
    count = max(len(first), 1)
    return Distance(
        "elements", math.sqrt(dd), math.sqrt(aa), bad[0], bad[1], cosine=cosine, scale=scale, largest=largest,
        changed=changed / count,
    )  # fmt: skip


_EXACT_SQUARES = 1e-20
"""Sums of squares above this lost nothing to the limits of float32, whose smallest normal number is 1.2e-38."""


def _squares(values: Array) -> float | None:
    """The sum of squares of float32 values to six digits; None if only float64 can tell."""
    if values.dtype != np.float32:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        blocks = (values[start : start + _BLOCK] for start in range(0, len(values), _BLOCK))
        total = math.fsum(float(np.dot(block, block)) for block in blocks)
    return total if math.isfinite(total) and total > _EXACT_SQUARES else None


def _finite(found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(np.isfinite(found), found, 0.0)


def _same_bits(first: Array, second: Array) -> bool:
    """Whether all bits are equal; stops at the first block that differs."""
    if first.dtype != second.dtype:
        return False
    step = 1 << 20
    whole = len(first) * first.itemsize
    words = np.uint64 if whole % 8 == 0 and first.flags.c_contiguous and second.flags.c_contiguous else np.uint8
    ones, twos = first.view(np.uint8).view(words), second.view(np.uint8).view(words)
    return all(np.array_equal(ones[at : at + step], twos[at : at + step]) for at in range(0, len(ones), step))
