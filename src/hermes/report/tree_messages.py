"""The titles and words of the time tree, on the terminal and on pages."""

from __future__ import annotations

from hermes.base.message import Message, Name, Ns, Rank, message, sentence

TITLE = sentence("tree.title")
EACH_STEP = sentence("tree.each_step")
EACH_STEP_OF_PATH = sentence("tree.each_step_of_path")
WHOLE = sentence("tree.whole")
IDLE = sentence("tree.idle")
COMPUTE = sentence("tree.compute")
COMMUNICATION = sentence("tree.communication")
COPIES = sentence("tree.copies")
OUTSIDE = sentence("tree.outside")
BETWEEN = sentence("tree.between")
OTHERS = sentence("tree.others")
EXCLUSIVE = sentence("tree.exclusive")
CHOSEN = sentence("tree.chosen")
NOT_KNOWN = sentence("tree.not_known")
SUMS_OF_DEVICE = sentence("tree.sums_of_device")
SUMS_OF_HOST = sentence("tree.sums_of_host")


@message("tree.on")
def on(*, rank: Rank) -> None:
    """The rank that spends more in a leaf than the others."""


@message("tree.only")
def only(*, part: Message, leaf: Message) -> None:
    """A state of the device whose time is all in one leaf."""


@message("tree.awaited")
def awaited(*, rank: Rank) -> None:
    """The rank for which a row waits."""


@message("tree.at")
def at(*, place: Name) -> None:
    """The place of a row: a line of the user's code, else a range, else an operator."""


@message("tree.curable")
def curable(*, ns: Ns) -> None:
    """The largest possible gain of a row."""
