"""How far a replayed gain is from what a cure gives: the spread that was seen between both, by kind of change.

A replay is one number and no promise. From jobs simulated again without their fault, and from real pairs of before and
after, it is known how far the truth lies from it; a gain is told as that range, within what the loss costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hermes.model.finding import Finding, Gain

SOURCE = "docs/accuracy.md, random jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What a cure gives over what its replay said, from the least to the most."""

    least: float
    most: float


_USUAL = Spread(least=0.75, most=1.35)
_OF_KIND: dict[str, Spread] = {
    # How much of the host's work on a launch a graph or a compiler takes off is not known beforehand.
    "launch": Spread(least=0.55, most=1.35),
    "sync": Spread(least=0.5, most=1.35),
    "op": Spread(least=0.75, most=1.25),
    "compute": Spread(least=0.75, most=1.25),
    "rank": Spread(least=0.7, most=1.35),
    "host": Spread(least=0.75, most=1.25),
    "comm": Spread(least=0.6, most=1.4),
    "copy": Spread(least=0.6, most=1.4),
}
"""By the first word of a change; of several changes the widest."""


def spread_of(specs: Sequence[str]) -> Spread:
    """The spread of changes that are made together."""
    found = [_OF_KIND.get(spec.partition(":")[0], _USUAL) for spec in specs] or [_USUAL]
    return Spread(least=min(one.least for one in found), most=max(one.most for one in found))


def ranged(gain: Gain, specs: Sequence[str], cost_ns: int) -> Gain:
    """A gain as the range that a cure of it lies in; one that was not replayed is a bound, and stays that."""
    if not gain.replayed or not gain.low_ns or not specs:
        return gain
    spread = spread_of(specs)
    high = max(min(round(gain.low_ns * spread.most), cost_ns), min(gain.low_ns, cost_ns))
    return replace(gain, low_ns=round(min(gain.low_ns, high) * spread.least), high_ns=high, middle_ns=gain.expected_ns)


def with_ranges(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings with their gains as ranges."""
    return tuple(replace(one, gain=ranged(one.gain, one.replay, one.cost_ns)) for one in findings)
