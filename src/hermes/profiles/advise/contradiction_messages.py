"""Which law of reports is broken."""

from __future__ import annotations

from hermes.base.message import Message, Name, Names, Ns, Rank, Share, Step, message, sentence

TOGETHER_STEP = sentence("contradiction.together_step")


@message("contradiction.parts")
def parts(*, rank: Rank, step: Step | None = None, sum: Ns, window: Ns) -> None:
    """Parts do not add up."""


@message("contradiction.path")
def path(*, rank: Rank, stretch: Name) -> None:
    """Parts do not add up."""


@message("contradiction.free")
def free(*, rank: Rank) -> None:
    """Parts do not add up."""


@message("contradiction.gain_range")
def gain_range(*, code: Name, low: Ns, high: Ns) -> None:
    """A range is none."""


@message("contradiction.gain_cost")
def gain_cost(*, code: Name, gain: Ns, cost: Ns) -> None:
    """A gain is too large."""


@message("contradiction.gain_free")
def gain_free(*, code: Name, gain: Ns, free: Ns) -> None:
    """A gain is too large."""


@message("contradiction.cost_step")
def cost_step(*, code: Name, cost: Ns, step: Ns) -> None:
    """A cost is too large."""


@message("contradiction.order")
def order(*, code: Name, causes: Names) -> None:
    """Actions are in a wrong order."""


@message("contradiction.gain_step")
def gain_step(*, code: Name, share: Share) -> None:
    """A gain is too large."""


@message("contradiction.together_sum")
def together_sum(*, together: Ns, sum: Ns) -> None:
    """A gain is too large."""


@message("contradiction.another_story")
def another_story(*, verdict: Message, action: Message) -> None:
    """Verdict and plan disagree."""
