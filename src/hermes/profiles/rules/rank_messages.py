"""Messages for the end of a finding's sentence that name its ranks."""

from __future__ import annotations

from collections.abc import Collection

from hermes.base.message import Message, Name, Rank, message


def on_count(ranks: Collection[int]) -> Message:
    """The one rank by its number, or the number of ranks."""
    return on_rank(rank=min(ranks)) if len(ranks) == 1 else on_several(some=str(len(ranks)))


@message("on.rank")
def on_rank(*, rank: Rank) -> None:
    """The end of a sentence about one rank alone."""


@message("on.several")
def on_several(*, some: Name) -> None:
    """The end of a sentence about several ranks."""
