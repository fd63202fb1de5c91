"""The work list of whoever makes operators faster: each with what limits it, and what could be tried."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.compute_measures import OperatorCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One thing to try. `most_ns` is what it can win over all calls at most, None where nothing tells."""

    what: str
    why: str
    most_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWork:
    """An operator with one set of shapes, what limits it, and its levers: the one that can win most comes first.

    `alone_ns` is the median of the operator run by itself, where that was measured.
    """

    cost: OperatorCost
    limited_by: str
    levers: tuple[Lever, ...]
    alone_ns: int | None = None

    @property
    def most_ns(self) -> int:
        """What the best lever can win over all calls at most; 0 where none is known."""
        return max((lever.most_ns or 0 for lever in self.levers), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAlone:
    """A kernel that the vendor's operator profiler ran by itself, on a device or in its simulator.

    `dur_ns` is None in the simulator, whose cycles are shares of `pipes` alone: the busy part of each pipe of the
    core's time, of the core that was longest at work, the busiest first. `slowest` is the time of the longest block
    over their mean, None where blocks have no times.
    """

    name: str
    kind: str
    dur_ns: int | None
    blocks: int | None
    mhz: float | None
    rated_mhz: float | None
    pipes: tuple[tuple[str, float], ...]
    slowest: float | None
    where: str

    def is_of(self, operator: str) -> bool:
        """Whether it is a kernel of that type of operator, by its name."""
        own, other = self.name.lower(), operator.lower()
        return own == other or own.startswith(f"{other}_")
