"""Operators worth tuning: each with its limit, its levers and their largest savings."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.model.compute_measures import OperatorCost


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """One change to try on an operator. `most_ns` is the most it can save over all calls, None if not known."""

    what: str
    why: str
    most_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWork:
    """An operator with one set of shapes, what limits it, and its levers, the lever with the largest saving first.

    `alone_ns` is the median time of the operator run by itself, if measured.
    """

    cost: OperatorCost
    limited_by: str
    levers: tuple[Lever, ...]
    alone_ns: int | None = None

    @property
    def most_ns(self) -> int:
        """The largest saving of any lever over all calls, in nanoseconds; 0 if none is known."""
        return max((lever.most_ns or 0 for lever in self.levers), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAlone:
    """A kernel that the vendor's operator profiler ran by itself, on a device or in its simulator.

    `dur_ns` is None in the simulator, whose cycles give only the shares of `pipes`. `pipes` are the busy shares of each
    pipe on the core that worked longest, the busiest first. `slowest` is the time of the longest block over the mean
    block, None if blocks have no times.
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
        """Whether the kernel's name says that it implements this type of operator."""
        own, other = self.name.lower(), operator.lower()
        return own == other or own.startswith(f"{other}_")
