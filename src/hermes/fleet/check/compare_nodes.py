"""Compares nodes, and finds those that are slower than other nodes, than their chip's peak, or than their own past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from hermes.base.message import Word
from hermes.fleet.check.node_reading import Check, Reading
from hermes.knowledge.identify_chip import chip_of
from hermes.model.limit import Limit

_SOURCE = "docs/evidence/node-check.md"
LOWER = Limit(value=0.10, unit="below the median of the nodes", source=_SOURCE)
SPREADS = Limit(value=5.0, unit="times the spread of the nodes below their median", source=_SOURCE)
FADED = Limit(value=0.10, unit="below what the node was", source=_SOURCE)
MATRIX = Limit(value=0.45, unit="of the peak of the chip", source=_SOURCE)
MEMORY = Limit(value=0.60, unit="of the bandwidth of the chip's memory", source=_SOURCE)
LEAST_NODES = 4
LEAST_BEFORE = 5
_LATEST = 3
_NORMAL = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""


class Against(Word):
    """The reference that a node is compared with."""

    OTHERS = "others"
    CHIP = "chip"
    PAST = "past"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowNode:
    """A slow node: its `value` is below the `usual` one. `since_ns` is when the node became slower, if known."""

    node: str
    check: Check
    part: str
    value: float
    usual: float
    against: Against
    since_ns: int | None = None

    @property
    def share(self) -> float:
        """The missing part of the usual value, from 0 to 1."""
        return 1.0 - self.value / self.usual


def latest(readings: Iterable[Reading]) -> list[Reading]:
    """The last reading of each check of each part of each node."""
    found = {(one.node, one.check, one.part): one for one in sorted(readings, key=lambda one: one.at_ns)}
    return list(found.values())


def slow_nodes(readings: Sequence[Reading]) -> list[SlowNode]:
    """All slow nodes, the slowest first; one entry for each check, part and comparison."""
    now = latest(readings)
    return sorted([*_against_others(now), *_against_chip(now), *_against_past(readings)], key=lambda one: -one.share)


def _against_others(now: Sequence[Reading]) -> Iterator[SlowNode]:
    for check in Check:
        of_check = [one for one in now if one.check is check]
        # A node counts once, with its worst device; a pair is as slow as its slower node: see the median.
        nodes: dict[str, Reading] = {}
        for one in _by_node(of_check, check):
            if one.node not in nodes or one.value < nodes[one.node].value:
                nodes[one.node] = one
        if len(nodes) < LEAST_NODES:
            continue
        middle, limit = _usual([one.value for one in nodes.values()], LOWER)
        yield from (
            SlowNode(node=one.node, check=check, part=one.part, value=one.value, usual=middle, against=Against.OTHERS)
            for one in nodes.values() if one.value < limit
        )  # fmt: skip


def _usual(values: Sequence[float], least: Limit) -> tuple[float, float]:
    """The median, and the value far below it: lower by a part of the median at least, and by several spreads."""
    middle = median(values)
    spread = _NORMAL * median(abs(value - middle) for value in values)
    return middle, middle - max(least.value * middle, SPREADS.value * spread)


def _by_node(of_check: Sequence[Reading], check: Check) -> Iterator[Reading]:
    """The reading of each node, for pairs the median: a slow node slows all of its pairs, but each partner's only
    once."""
    if check is not Check.PAIR:
        yield from of_check
        return
    by_node: dict[str, list[Reading]] = defaultdict(list)
    for one in of_check:
        by_node[one.node].append(one)
    for node, found in by_node.items():
        middle = median(one.value for one in found)
        yield Reading(node=node, at_ns=found[-1].at_ns, check=check, value=middle)


def _against_chip(now: Sequence[Reading]) -> Iterator[SlowNode]:
    for one in now:
        chip = chip_of(one.chip)
        if chip is None:
            continue
        usual = 0.0
        if one.check is Check.DEVICE_MATRIX:
            usual = MATRIX.value * chip.matrix.get("bf16", 0.0)
        elif one.check is Check.DEVICE_MEMORY:
            usual = MEMORY.value * (chip.bandwidth or 0.0)
        if one.value < usual:
            yield SlowNode(node=one.node, check=one.check, part=one.part, value=one.value, usual=usual,
                       against=Against.CHIP)  # fmt: skip


def _against_past(readings: Sequence[Reading]) -> Iterator[SlowNode]:
    """Nodes whose last three checks all lie below their first checks, by 10% and by more than the first checks
    spread."""
    series: dict[tuple[str, Check, str], list[Reading]] = defaultdict(list)
    for one in sorted(readings, key=lambda one: one.at_ns):
        series[one.node, one.check, one.part].append(one)
    for (node, check, part), found in series.items():
        if len(found) < LEAST_BEFORE + _LATEST:
            continue
        usual, limit = _usual([one.value for one in found[:LEAST_BEFORE]], FADED)
        if all(one.value < limit for one in found[-_LATEST:]):
            since = next(place for place in range(len(found)) if all(one.value < limit for one in found[place:]))
            yield SlowNode(node=node, check=check, part=part, value=found[-1].value, usual=usual, against=Against.PAST,
                       since_ns=found[since].at_ns)  # fmt: skip
