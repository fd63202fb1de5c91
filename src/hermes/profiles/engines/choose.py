"""Chooses the engine that runs the analysis: by its name, or by the number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hermes.base.errors import InputError
from hermes.base.usable_cores import cores
from hermes.profiles.engines import messages
from hermes.profiles.engines.engine import Engine, Given, LostRank, Made
from hermes.profiles.engines.processes import Processes
from hermes.profiles.engines.serial import Serial

FROM_RANKS = 4
"""The number of ranks from which starting processes pays off."""


class ByRanks(Engine):
    """An engine that runs a few ranks in this process, and more ranks in several processes."""

    def __init__(self, jobs: int | None = None) -> None:
        self._few = Serial(jobs)
        self._many = Processes(jobs)
        self._alone = (jobs or cores()) == 1
        self._chosen: Engine = self._few

    @property
    def threads(self) -> int:
        """The number of threads of the engine that was chosen last."""
        return self._chosen.threads

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """Run the function with the engine that suits the number of ranks."""
        self._chosen = self._few if self._alone or len(given) < FROM_RANKS else self._many
        return self._chosen.map(function, given)

    def close(self) -> None:
        """End the processes, if any were started."""
        self._many.close()


@contextmanager
def engine_of(name: str = "", jobs: int | None = None) -> Iterator[Engine]:
    """The engine of a name (`serial`, `processes`, `ray`, `ray://host:port`); else by the number of ranks."""
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
    raise InputError(messages.unknown(name=repr(name)), where="--engine", hint=messages.DO_CHOOSE)
