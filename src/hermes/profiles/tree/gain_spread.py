"""Ratios of true gain to replayed gain, by kind of change, from simulated jobs and real pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes.model.finding import Loss

SOURCE = "docs/evidence/gain-ranges.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class GainSpread:
    """The ratio of a fix's true gain to its replayed gain: the least, the most, and the median."""

    least: float
    most: float
    median: float = 1.0


_USUAL = GainSpread(least=0.75, most=1.35)
OF_KIND: dict[str, GainSpread] = {
    # How much of the host's work on a launch a graph or a compiler saves is not known beforehand.
    "launch": GainSpread(least=0.65, most=1.3),
    "sync": GainSpread(least=0.65, most=1.3),
    "op": GainSpread(least=0.75, most=1.25),
    "compute": GainSpread(least=0.75, most=1.25),
    # A stage has work beside its layers, and not all of it is known.
    "layers": GainSpread(least=0.75, most=1.5),
    "rank": GainSpread(least=0.7, most=1.35),
    "host": GainSpread(least=0.75, most=1.25),
    "comm": GainSpread(least=0.6, most=1.2),
    # Hiding all communication is the best case: the last transfers of a step have nothing beside them.
    "comm:overlap": GainSpread(least=0.6, most=1.2, median=0.75),
    "copy": GainSpread(least=0.65, most=1.3),
}
"""Spreads by change, or by the first word of a change; several changes take the widest spread."""


def spread_of(specs: Sequence[str]) -> GainSpread:
    """The spread of gains of changes that are made together."""
    found = [OF_KIND.get(spec) or OF_KIND.get(spec.partition(":")[0], _USUAL) for spec in specs] or [_USUAL]
    return GainSpread(
        least=min(one.least for one in found),
        most=max(one.most for one in found),
        median=min(one.median for one in found),
    )


def expected_ns(finding: Loss) -> float:
    """The gain in ns to expect from a finding's fix: the replayed gain times the median ratio of such fixes."""
    return finding.gain.expected_ns * spread_of(finding.replay).median
