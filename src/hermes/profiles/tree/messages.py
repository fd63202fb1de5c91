"""What a report says first: how large the job is, what its device does, and where most time can be won."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, Ns, Rank, Share, Text, message, sentence

UNKNOWN = sentence("verdict.unknown")
NO_DEVICE = sentence("verdict.no_device")
UNLIKE = sentence("verdict.unlike")
EACH_STEP = sentence("verdict.each_step")
THE_CAPTURE = sentence("verdict.the_capture")
ABSENT = sentence("verdict.absent")
NO_ROOF = sentence("verdict.no_roof")
NO_LINE = sentence("verdict.no_line")


@message("verdict.of")
def of(
    *,
    size: Message,
    state: Message | None = None,
    waits: Message | None = None,
    ends: Message | None = None,
    said: Message,
    line: Message | None = None,
    unlike: Message | None = None,
    device: Message | None = None,
) -> None:
    """The verdict."""


@message("verdict.size")
def size(*, ranks: Message | None = None, steps: Message) -> None:
    """How large the job is."""


@message("verdict.ranks")
def ranks(*, n: Count) -> None:
    """How many ranks were collected."""


@message("verdict.part_of_ranks")
def part_of_ranks(*, n: Count, expected: Count) -> None:
    """How many ranks were collected, of how many."""


@message("verdict.steps")
def steps(*, n: Count, length: Ns, mean: Ns | None = None) -> None:
    """How many steps, and how long the typical one is."""


@message("verdict.a_capture")
def a_capture(*, length: Ns) -> None:
    """A capture without steps."""


@message("verdict.idle")
def idle(*, share: Share) -> None:
    """What the device does."""


@message("verdict.busy")
def busy(*, share: Share) -> None:
    """What the device does."""


@message("verdict.idle_on")
def idle_on(*, rank: Rank, share: Share) -> None:
    """What the device of one rank does, for which others wait."""


@message("verdict.waits")
def waits(*, share: Share, rank: Rank | None = None) -> None:
    """How long ranks wait for each other."""


@message("verdict.ends")
def ends(*, what: Text) -> None:
    """What ends the job."""


@message("verdict.loss")
def loss(
    *,
    share: Share,
    of: Message,
    ns: Ns,
    leaf: Text,
    rank: Rank | None = None,
    what: Name | None = None,
    place: Name | None = None,
    curable: Message | None = None,
) -> None:
    """The kind of leaf of which most can be won."""


@message("verdict.wait_for")
def wait_for(*, rank: Rank, absent: Message | None = None) -> None:
    """The leaf is a wait for a rank."""


@message("verdict.not_recorded")
def not_recorded(*, following: Name) -> None:
    """The leaf is time of which nothing was recorded."""


@message("verdict.curable")
def curable(*, share: Share) -> None:
    """How much of the leaf can be won."""


@message("verdict.made_of")
def made_of(
    *, parts: Messages, place: Name | None = None, attained: Message | None = None, loss: Message | None = None
) -> None:
    """What the steps are made of."""


@message("verdict.part")
def part(*, share: Share, leaf: Text, what: Name | None = None) -> None:
    """A part of the steps."""


@message("verdict.attained")
def attained(*, share: Share) -> None:
    """How close the largest part is to what the chip attains."""


@message("verdict.requests")
def requests(*, took: Ns, parts: Message | None = None) -> None:
    """Where requests spend their time."""


@message("verdict.queues")
def queues(*, share: Share) -> None:
    """Where requests spend their time."""


@message("verdict.first_token")
def first_token(*, first: Share, queues: Share) -> None:
    """Where requests spend their time."""
