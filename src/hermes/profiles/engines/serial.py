"""One rank after another, in this process; what is measured of one rank shares its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hermes.base.cores import cores
from hermes.profiles.engines.engine import Engine, Given, Lost, Made, called


class Serial(Engine):
    """Calls the function here."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()

    @property
    def threads(self) -> int:
        """As many as there are cores, unless told otherwise."""
        return self._threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | Lost]:
        """In rank order."""
        return {rank: called(function, rank, one) for rank, one in sorted(given.items())}

    def close(self) -> None:
        """Nothing is held."""
