"""The serial engine: one rank after another, in this process; the measures of a rank share its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.base.usable_cores import cores
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made, call_of_rank


class Serial(Engine):
    """An engine that calls the function for one rank after another in this process."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()

    @property
    def threads(self) -> int:
        """The number of threads: as many as there are cores, unless set otherwise."""
        return self._threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """Run the function for each rank, in rank order."""
        return {rank: call_of_rank(function, rank, one) for rank, one in sorted(given.items())}

    def close(self) -> None:
        """Do nothing: the serial engine holds no resources."""
