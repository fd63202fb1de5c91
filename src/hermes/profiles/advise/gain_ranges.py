"""Turns a replayed gain into a range, by the ratio of true to replayed gains of that kind of change.

A replay gives one number and no promise. Jobs simulated without their fault, and real pairs of before and after, show
how far the true gain lies from the replayed gain. A gain is reported as that range. A gain never exceeds the loss plus
the uncertainty of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

from hermes.model.finding import Gain, Loss
from hermes.model.leaf import Leaf, Risk
from hermes.model.plan import NoiseFloor
from hermes.profiles.advise.gain_bound import GainBound, only_host_changes
from hermes.profiles.tree.gain_spread import OF_KIND, spread_of

_BESIDE, _BESIDE_LAUNCHES = 0.05, 0.5
"""The share of a loss that its count may have missed: the losses of all random jobs lie within the first share."""
_BY_CHANCE = 1.28 * 2**0.5
"""Standard errors of a median within which the difference of two medians lies in four of five cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCertainty:
    """How well the costs of a capture are known: the noise of its steps, and the most that a step can lose."""

    floor: NoiseFloor
    room: GainBound

    def most_ns(self, cost_ns: int, specs: Sequence[str] = ()) -> int:
        """The most in ns that a loss of `cost_ns` may cost: at most the step, or what host changes can save.

        Recorded steps differ, as steps after a fix will: both medians are off by chance. A count also misses what a
        cause does to calls and tasks beside it. A count of launches misses what a slow host does between launches.
        """
        beside = _BESIDE_LAUNCHES if any(spec.startswith("launch:") for spec in specs) else _BESIDE
        off = hypot(beside * cost_ns, _BY_CHANCE * self.floor.ns)
        room = self.room.host_ns if specs and only_host_changes(specs) else self.room.step_ns
        return max(min(round(cost_ns + off), room or self.floor.step_ns), cost_ns)

    def held_ns(self, most_ns: int, findings: Sequence[Loss]) -> int:
        """The most in ns that the findings may cost: `most_ns`, but at most the time of the leaves that they explain.

        Several findings of one leaf share the leaf's time once. The leaves of other steps differ by chance, too.
        """
        rooms: dict[Leaf | Risk, int] = {}
        for one in findings:
            if one.room_ns is None:
                return most_ns
            rooms[one.about] = max(rooms.get(one.about, 0), one.room_ns)
        room = sum(rooms.values())
        return min(most_ns, round(room + hypot(_BESIDE * room, _BY_CHANCE * self.floor.ns))) if rooms else most_ns


def ranged(gain: Gain, specs: Sequence[str], most_ns: int) -> Gain:
    """A gain as the range in which its fix lies; a gain that was not replayed is an upper bound, and stays a bound.

    Counted host time with no device beside it is as uncertain as a change of the host's work.
    """
    if not gain.replayed or not gain.low_ns:
        return gain
    if not specs:
        host = OF_KIND["host"]
        if gain.low_ns <= host.least * gain.high_ns:
            return gain
        high = max(gain.high_ns, min(round(gain.high_ns * host.most), most_ns))
        return replace(gain, low_ns=round(gain.high_ns * host.least), high_ns=high, middle_ns=gain.expected_ns)
    spread = spread_of(specs)
    high = max(min(round(gain.low_ns * spread.most), most_ns), min(gain.low_ns, most_ns))
    return replace(gain, low_ns=round(min(gain.low_ns, high) * spread.least), high_ns=high, middle_ns=gain.expected_ns)


def with_ranges(findings: Sequence[Loss], known: CostCertainty) -> tuple[Loss, ...]:
    """The findings with their gains as ranges, within the time of the leaves that they explain."""
    return tuple(
        replace(one, gain=ranged(one.gain, one.replay, known.held_ns(known.most_ns(one.cost_ns, one.replay), [one])))
        for one in findings
    )
