"""Which engine is meant: by name, or by how many ranks there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hermes.base.cores import cores
from hermes.base.errors import InputError
from hermes.profiles.engines.engine import Engine, Given, Lost, Made
from hermes.profiles.engines.processes import Processes
from hermes.profiles.engines.serial import Serial

FROM_RANKS = 4
"""From so many ranks on that are to be done, processes are worth their start."""


class ByRanks(Engine):
    """This process for a few ranks, several for more."""

    def __init__(self, jobs: int | None = None) -> None:
        self._few = Serial(jobs)
        self._many = Processes(jobs)
        self._alone = (jobs or cores()) == 1
        self._chosen: Engine = self._few

    @property
    def threads(self) -> int:
        """Those of the engine that was chosen last."""
        return self._chosen.threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | Lost]:
        """By the engine that is worth it for so many."""
        self._chosen = self._few if self._alone or len(given) < FROM_RANKS else self._many
        return self._chosen.map(function, given)

    def close(self) -> None:
        """End the processes, if any were started."""
        self._many.close()


@contextmanager
def engine_of(name: str = "", jobs: int | None = None) -> Iterator[Engine]:
    """The engine of a name: `serial`, `processes`, `ray`, `ray://host:port`; without a name by the ranks there are."""
    engine = _made(name, jobs)
    try:
        yield engine
    finally:
        engine.close()


def _made(name: str, jobs: int | None) -> Engine:
    if not name:
        return ByRanks(jobs)
    if name == "serial":
        return Serial(jobs)
    if name == "processes":
        return Processes(jobs)
    if name == "ray" or name.startswith("ray://"):
        from hermes.profiles.engines.cluster import Ray

        return Ray(name if name != "ray" else "", jobs)
    raise InputError(
        f"{name!r} is no engine", where="--engine", hint="there are serial, processes, ray and ray://host:port"
    )
