"""What a comparison of two runs says: its answer, and what the runs do not share."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Names, Ns, Ranks, Share, Text, message, sentence

BEFORE = sentence("compare.before")
AFTER = sentence("compare.after")
NOT_KNOWN = sentence("compare.not_known")


@message("compare.as_fast")
def as_fast(*, change: Ns, margin: Ns) -> None:
    """No change of the step is beyond chance."""


@message("compare.faster")
def faster(*, change: Ns, margin: Ns, share: Share | None = None) -> None:
    """The step became shorter."""


@message("compare.slower")
def slower(*, change: Ns, margin: Ns, share: Share | None = None) -> None:
    """The step became longer."""


@message("compare.not_all")
def not_all(*, what: Messages) -> None:
    """The runs do not share everything, so nothing is said of their speed."""


@message("compare.more")
def more(*, n: Count) -> None:
    """What else is not shared."""


@message("compare.incomplete")
def incomplete(*, side: Message, what: Text) -> None:
    """An input is damaged or doubtful."""


@message("compare.ranks")
def only_ranks(*, side: Message, ranks: Ranks) -> None:
    """Ranks that one run alone has."""


@message("compare.steps_of")
def steps_of(*, ranks: Ranks, before: Message, after: Message) -> None:
    """Ranks whose steps are not as many."""


@message("compare.steps")
def steps(*, n: Count) -> None:
    """How many steps a rank has."""


@message("compare.only_kind")
def only_kind(*, side: Message, kind: Message) -> None:
    """A kind of data that one run alone has."""


@message("compare.only_operators")
def only_operators(*, side: Message, count: Count, of: Count, names: Names) -> None:
    """Operators that one run alone has."""


@message("compare.calls")
def other_calls(*, count: Count, of: Count, names: Names) -> None:
    """Operators that both runs have, and do not call as often."""


@message("compare.not_pairs")
def not_pairs(*, before: Message, after: Message) -> None:
    """As many ranks must be named of both runs."""


@message("compare.rank_count")
def ranks(*, n: Count) -> None:
    """How many ranks."""


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
"""Tables of names and parts of a step, as data that a run holds or lacks."""
