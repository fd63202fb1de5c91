"""How far a replayed gain is from what a cure gives: the spread that was seen between both, by kind of change.

A replay is one number and no promise. From jobs simulated again without their fault, and from real pairs of before and
after, it is known how far the truth lies from it; a gain is told as that range, within what the loss costs, as far as
that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot

from hermes.model.finding import Gain, Loss
from hermes.model.plan import NoiseFloor
from hermes.profiles.advise.room import Room, of_host
from hermes.profiles.tree.spread import OF_KIND, spread_of

_BESIDE, _BESIDE_LAUNCHES = 0.05, 0.5
"""What a count may have missed, as a share of it: of the costs of random jobs all lie within the first."""
_BY_CHANCE = 1.28 * 2**0.5
"""Standard errors of a median within which the difference of two lies in four of five cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """How well the costs of a capture are known: the noise of its steps, and what a step can lose at most."""

    floor: NoiseFloor
    room: Room

    def most_ns(self, cost_ns: int, specs: Sequence[str] = ()) -> int:
        """What a loss costs at most, as it was counted at `cost_ns`; never more than the step, or than a host can win.

        A count is of recorded steps, which differ, as those after a cure will: both medians are off by chance. And it
        does not see what a cause does to calls and tasks beside it; of launches, not what a slow host does between.
        """
        beside = _BESIDE_LAUNCHES if any(spec.startswith("launch:") for spec in specs) else _BESIDE
        off = hypot(beside * cost_ns, _BY_CHANCE * self.floor.ns)
        room = self.room.host_ns if specs and of_host(specs) else self.room.step_ns
        return max(min(round(cost_ns + off), room or self.floor.step_ns), cost_ns)


def ranged(gain: Gain, specs: Sequence[str], most_ns: int) -> Gain:
    """A gain as the range that a cure of it lies in; one that was not replayed is a bound, and stays that.

    Time of the host that was counted, where no device runs beside it, is no surer than a change of the host's work.
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


def with_ranges(findings: Sequence[Loss], known: Known) -> tuple[Loss, ...]:
    """The findings with their gains as ranges."""
    return tuple(
        replace(one, gain=ranged(one.gain, one.replay, known.most_ns(one.cost_ns, one.replay))) for one in findings
    )
