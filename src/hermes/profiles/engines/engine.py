"""What an engine is: it calls one function for every rank, in any order and any place, and names the ranks it lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hermes.base.errors import HermesError

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A rank that could not be done, and why."""

    rank: int
    error: HermesError


class Engine(Protocol):
    """Calls functions for ranks."""

    @property
    def threads(self) -> int:
        """How many threads each call may use."""
        ...

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | Lost]:
        """What the function makes of what is given for each rank, by rank; functions and values must be picklable.

        A `HermesError` of a call loses its rank; any other exception ends the whole.
        """
        ...

    def close(self) -> None:
        """Let go of what the engine holds."""
        ...


def called(function: Callable[[Given], Made], rank: int, given: Given) -> Made | Lost:
    """One call, its `HermesError` caught."""
    try:
        return function(given)
    except HermesError as error:
        return Lost(rank=rank, error=error)
