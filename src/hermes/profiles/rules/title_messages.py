"""Messages that titles of findings share: the share of a step, the ranks that lose it, and the effect on the step."""

from __future__ import annotations

from collections.abc import Collection

from hermes.base.message import Message, Name, Rank, Share, message
from hermes.model.job import Job
from hermes.profiles.rules._cost_by_rank import Spent, percents
from hermes.profiles.rules._host import has_device


def some_of(job: Job, ranks: Collection[int]) -> Message | None:
    """The ranks that a title names: one rank by its number, several by how many; None if all ranks have the loss."""
    every = len(job.steps.counts)
    if len(ranks) == every:
        return None
    return one_rank(rank=min(ranks)) if len(ranks) == 1 else some_ranks(some=str(len(ranks)), every=str(every))


def effect(job: Job, found: Spent) -> Message:
    """The effect of a loss on the step: free device time, or time of the step without a device."""
    said = leaves_free if has_device(job, found.worst.rank) else takes
    return said(share=percents(found.share))


@message("title.rank")
def one_rank(*, rank: Rank) -> None:
    """Only one rank has the loss."""


@message("title.ranks")
def some_ranks(*, some: Name, every: Name) -> None:
    """How many ranks of all have the loss."""


@message("title.leaves_free")
def leaves_free(*, share: Share) -> None:
    """The device has nothing to do during the loss."""


@message("title.takes")
def takes(*, share: Share) -> None:
    """A job without a device loses this share of its step."""
