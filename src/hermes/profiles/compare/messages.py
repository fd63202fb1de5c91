"""Messages of a comparison of two runs."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Names, Ns, Ranks, Share, Text, message, sentence

BEFORE = sentence("compare.before")
AFTER = sentence("compare.after")
NOT_KNOWN = sentence("compare.not_known")


@message("compare.as_fast")
def as_fast(*, change: Ns, margin: Ns) -> None:
    """Message: no change of the step is beyond chance."""


@message("compare.faster")
def faster(*, change: Ns, margin: Ns, share: Share | None = None) -> None:
    """Message: the step became shorter."""


@message("compare.slower")
def slower(*, change: Ns, margin: Ns, share: Share | None = None) -> None:
    """Message: the step became longer."""


@message("compare.not_all")
def not_all(*, what: Messages) -> None:
    """Message: the two runs do not share everything, so their speed is not compared."""


@message("compare.more")
def more(*, n: Count) -> None:
    """Message: how many more things the two runs do not share."""


@message("compare.incomplete")
def incomplete(*, side: Message, what: Text) -> None:
    """Message: an input is damaged or doubtful."""


@message("compare.ranks")
def only_ranks(*, side: Message, ranks: Ranks) -> None:
    """Message: ranks that only one of the two runs has."""


@message("compare.steps_of")
def steps_of(*, ranks: Ranks, before: Message, after: Message) -> None:
    """Message: ranks whose number of steps differs between the two runs."""


@message("compare.steps")
def steps(*, n: Count) -> None:
    """Message part: how many steps a rank has."""


@message("compare.only_kind")
def only_kind(*, side: Message, kind: Message) -> None:
    """Message: a kind of data that only one of the two runs has."""


@message("compare.only_operators")
def only_operators(*, side: Message, count: Count, of: Count, names: Names) -> None:
    """Message: operators that only one of the two runs has."""


@message("compare.calls")
def other_calls(*, count: Count, of: Count, names: Names) -> None:
    """Message: operators that the two runs call a different number of times."""


@message("compare.not_pairs")
def not_pairs(*, before: Message, after: Message) -> None:
    """Error: the two runs have different numbers of ranks, so ranks cannot be paired in order."""


@message("compare.rank_count")
def ranks(*, n: Count) -> None:
    """Message part: the number of ranks."""


AS_MANY = sentence("compare.do.as_many")
KINDS = {
    "operators": sentence("compare.kind.operators"),
    "kernels": sentence("compare.kind.kernels"),
    "host": sentence("compare.kind.host"),
    "compute": sentence("compare.kind.compute"),
    "exposed_comm": sentence("compare.kind.exposed_comm"),
    "copy_exposed": sentence("compare.kind.copy_exposed"),
    "free": sentence("compare.kind.free"),
}
"""Names of the compared tables and of the step's parts, as data that a run has or lacks."""
