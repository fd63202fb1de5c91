"""The cost model of collectives: a fixed time and a time per byte, fitted to the job's own collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hermes.profiles.measure.path.event_graph import EventGraph
from hermes.profiles.whatif.communication.collectives_in_graph import Operation

Case = Literal["low", "middle", "high"]
_CASES: tuple[Case, ...] = ("low", "middle", "high")
Link = tuple[str, tuple[int, ...]]
_ROUNDS = 8
_OUTLIER = 2.5
"""The number of deviations beyond which a transfer weighs less than the others, as in Huber's method."""
APART = 2.0
"""The factor between sizes of collectives below which the sizes do not tell a slope."""
_CLOCKS_NS = 100_000
"""The overlap in ns below which collectives may overlap only because of clock errors between ranks."""
_WIDE = 2.0
"""Standard errors on both sides of the fit."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCost:
    """The cost of a collective by size: the likely line, and lines for the least and the most possible fixed time.

    Each line is a fixed time in ns and a time per byte. `sizes` is how many sizes were seen: with one size, the fixed
    time may be anything from none to the shortest collective of these ranks.
    """

    lines: Mapping[Case, tuple[float, float]]
    sizes: int

    @property
    def told(self) -> bool:
        """Whether sizes differ enough to tell the fixed time from the time per byte."""
        return self.sizes > 1

    @property
    def fixed_ns(self) -> int:
        """The time in ns that a collective takes whatever its size."""
        return round(self.lines["middle"][0])

    def ns(self, size: int, case: Case = "middle") -> int:
        """The time in ns of a collective of `size` bytes; `low` and `high` assume a small and a large fixed time."""
        fixed, for_byte = self.lines[case]
        return max(1, round(fixed + for_byte * size))


@dataclass(frozen=True, slots=True)
class BusyLink:
    """A stretch in which a link was busy: how many collectives, their total bytes, and its length in ns."""

    many: int
    bytes: int
    ns: int


def costs(graph: EventGraph, operations: Sequence[Operation], *, apart: float = APART) -> Mapping[Link, CollectiveCost]:
    """The cost of collectives by operation and ranks; sizes that differ by less than the factor `apart` tell no slope.

    Collectives that run side by side share the link, as gloo's do: together they form one stretch.
    """
    spans: dict[Link, list[tuple[int, int, int]]] = {}
    for one in operations:
        nodes = list(one.transfer.values())
        begin = min(int(graph.start[node]) for node in nodes)
        spans.setdefault(one.link, []).append((begin, begin + max(int(graph.dur[node]) for node in nodes), one.bytes))
    busy = {link: _busy(sorted(own)) for link, own in spans.items()}
    # A collective of more ranks has at least the fixed time of a collective of fewer ranks.
    least = {link: min(one.ns // one.many for one in own) for link, own in busy.items()}
    return {
        link: fitted(
            own,
            min(ns for (op, ranks), ns in least.items() if op == link[0] and set(ranks) >= set(link[1])),
            apart=apart,
        )
        for link, own in busy.items()
    }


def _busy(spans: Sequence[tuple[int, int, int]]) -> list[BusyLink]:
    found: list[tuple[int, int, int, int]] = []
    for begin, end, size in spans:
        if found and begin < found[-1][1] - _CLOCKS_NS:
            first, last, many, total = found[-1]
            found[-1] = (first, max(last, end), many + 1, total + size)
        else:
            found.append((begin, end, 1, size))
    return [BusyLink(many, total, end - begin) for begin, end, many, total in found]


def fitted(points: Sequence[BusyLink], least_ns: int, *, apart: float = APART) -> CollectiveCost:
    """A robust line through sizes and times of busy stretches; errors are relative, as errors of transfers are."""
    many = np.array([point.many for point in points], dtype=np.float64)
    size = np.array([point.bytes for point in points], dtype=np.float64)
    time = np.maximum(np.array([point.ns for point in points], dtype=np.float64), 1.0)
    each = size / many
    if each.max() < apart * each.min():
        lasted, usual = float(np.median(time / many)), float(np.median(each))
        most = min(float(least_ns), lasted)
        return CollectiveCost(sizes=1, lines={
            case: (fixed, (lasted - fixed) / usual)
            for case, fixed in zip(_CASES, (0.0, most / 2, most), strict=True)
        })  # fmt: skip
    # In units of the mean size, both parameters are times.
    unit = float(size.mean())
    of = np.stack([many, size / unit], axis=1)
    weight = 1 / time
    solution, spread = np.zeros(2), 0.0
    for _ in range(_ROUNDS):
        solution = _solved(of, time, weight)
        rest = (time - of @ solution) / time
        spread = 1.4826 * float(np.median(np.abs(rest))) + 1e-4
        weight = np.minimum(1.0, _OUTLIER * spread / np.maximum(np.abs(rest), 1e-12)) ** 0.5 / time
    scaled = of * weight[:, None]
    values, vectors = np.linalg.eigh(np.linalg.pinv(scaled.T @ scaled) * spread**2)
    # The trade between fixed time and time per byte is the least certain direction of the fit.
    away = vectors[:, -1] * np.sign(vectors[0, -1] or 1.0) * _WIDE * np.sqrt(max(0.0, values[-1]))
    lines: dict[Case, tuple[float, float]] = {}
    for case, sign in zip(_CASES, (-1, 0, 1), strict=True):
        fixed, for_unit = np.maximum(solution + sign * away, 0.0)
        lines[case] = (float(fixed), float(for_unit) / unit)
    return CollectiveCost(sizes=len(set(each.tolist())), lines=lines)


def _solved(of: Floats, time: Floats, weight: Floats) -> Floats:
    """Least squares of two parameters, neither below zero."""
    solution, *_ = np.linalg.lstsq(of * weight[:, None], time * weight, rcond=None)
    for place in (0, 1):
        if solution[place] < 0:
            other = of[:, 1 - place] * weight
            alone = float(other @ (time * weight) / (other @ other))
            solution = np.zeros(2)
            solution[1 - place] = alone
            break
    return np.asarray(solution, dtype=np.float64)
