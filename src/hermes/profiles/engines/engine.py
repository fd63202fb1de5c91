"""The interface of an engine: it calls one function for every rank, in any order, and names the ranks it lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from hermes.base.errors import HermesError

Given = TypeVar("Given")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRank:
    """A rank that an engine could not process, and the error."""

    rank: int
    error: HermesError


class LostRanksError(Exception):
    """Raised when an engine lost ranks: results that rest on all ranks are made again without them."""

    def __init__(self, lost: Sequence[LostRank]) -> None:
        super().__init__()
        self.lost = lost


class Engine(Protocol):
    """An engine calls functions for ranks.

    `remote`: the ranks' tables are on other machines, and the caller cannot read them.
    """

    remote: ClassVar[bool] = False

    @property
    def threads(self) -> int:
        """How many threads each call may use."""
        ...

    def map(self, function: Callable[[Given], Made], given: Mapping[int, Given]) -> dict[int, Made | LostRank]:
        """The results of the function by rank; functions and values must be picklable.

        A `HermesError` of a call loses its rank; any other exception ends the whole run.
        """
        ...

    def close(self) -> None:
        """Release the resources of the engine."""
        ...


def call_of_rank(function: Callable[[Given], Made], rank: int, given: Given) -> Made | LostRank:
    """The result of one call, or the rank as `LostRank` if the call raises a `HermesError`."""
    try:
        return function(given)
    except HermesError as error:
        return LostRank(rank=rank, error=error)


def results_in_rank_order(found: Mapping[int, Made | LostRank]) -> list[Made]:
    """The results of all ranks, in rank order. Raises `LostRanksError` if ranks were lost."""
    lost = [one for one in found.values() if isinstance(one, LostRank)]
    if lost:
        raise LostRanksError(lost)
    return [one for _, one in sorted(found.items()) if not isinstance(one, LostRank)]
