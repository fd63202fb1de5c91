"""How much a cure gave of what its replay said, by kind of change: from jobs simulated again, and from real pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.model.finding import Loss

SOURCE = "docs/accuracy.md, random jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What a cure gives over what its replay said, from the least to the most, and in the median."""

    least: float
    most: float
    median: float = 1.0


_USUAL = Spread(least=0.75, most=1.35)
OF_KIND: dict[str, Spread] = {
    # How much of the host's work on a launch a graph or a compiler takes off is not known beforehand.
    "launch": Spread(least=0.65, most=1.3),
    "sync": Spread(least=0.65, most=1.3),
    "op": Spread(least=0.75, most=1.25),
    "compute": Spread(least=0.75, most=1.25),
    # Of what a stage has besides layers not all is known.
    "layers": Spread(least=0.75, most=1.5),
    "rank": Spread(least=0.7, most=1.35),
    "host": Spread(least=0.75, most=1.25),
    "comm": Spread(least=0.6, most=1.2),
    # That all is hidden is the best that can be: the last transfers of a step have nothing beside them.
    "comm:overlap": Spread(least=0.6, most=1.2, median=0.75),
    "copy": Spread(least=0.65, most=1.3),
}
"""By a change or its first word; of several changes the widest."""


def spread_of(specs: Sequence[str]) -> Spread:
    """The spread of changes that are made together."""
    found = [OF_KIND.get(spec) or OF_KIND.get(spec.partition(":")[0], _USUAL) for spec in specs] or [_USUAL]
    return Spread(
        least=min(one.least for one in found),
        most=max(one.most for one in found),
        median=min(one.median for one in found),
    )


def expected_ns(finding: Loss) -> float:
    """What a cure is expected to give, as such cures gave it."""
    return finding.gain.expected_ns * spread_of(finding.replay).median
