"""What the verdict says: what the step is lost to, where, and what it rests on."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Ns, Rank, Share, Text, message, sentence

STEP = sentence("verdict.step")
CAPTURE = sentence("verdict.capture")
NO_DEVICE = sentence("verdict.no_device")
UNKNOWN = sentence("verdict.unknown")
UNLIKE = sentence("verdict.unlike")
OTHERS_WAIT = sentence("verdict.others_wait")
NO_RULE = sentence("verdict.no_rule")
HOST_WORKS = sentence("verdict.host_works")


@message("verdict.of")
def of(
    *,
    subject: Message,
    length: Ns,
    captured: Ns | None = None,
    said: Message,
    beside: Message | None = None,
    preview: Message | None = None,
    unlike: Message | None = None,
    device: Message | None = None,
    partly: Message | None = None,
) -> None:
    """The verdict."""


@message("verdict.partly")
def partly(*, n: Count, expected: Count) -> None:
    """The verdict rests on a part of the job."""


@message("verdict.communication")
def communication(*, share: Share) -> None:
    """What the device does."""


@message("verdict.compute")
def compute(*, share: Share) -> None:
    """What the device does."""


@message("verdict.host")
def host(*, share: Share) -> None:
    """What the device does."""


@message("verdict.copy")
def copy(*, share: Share) -> None:
    """What the device does."""


@message("verdict.exactly")
def exactly(*, share: Share) -> None:
    """A share of the step."""


@message("verdict.up_to")
def up_to(*, share: Share) -> None:
    """A share of the step."""


@message("verdict.between")
def between(*, low: Share, high: Share) -> None:
    """A share of the step."""


@message("verdict.lost")
def lost(
    *,
    share: Message,
    fault: Message,
    where: Message | None = None,
    line: Name | None = None,
    waited: Message | None = None,
) -> None:
    """The first problem."""


@message("verdict.some_ranks")
def some_ranks(*, n: Count, every: Count) -> None:
    """Where a problem is."""


@message("verdict.named")
def named(*, name: Name) -> None:
    """Whom the first problem is laid at."""


@message("verdict.one_rank")
def one_rank(*, rank: Rank) -> None:
    """Where a problem is."""


@message("verdict.waiting")
def waiting(*, share: Message, who: Message) -> None:
    """The first problem is a straggler."""


@message("verdict.endangered")
def endangered(*, what: Text) -> None:
    """The first problem ends the job."""


@message("verdict.preview")
def preview(*, share: Message, fault: Message, line: Name | None = None) -> None:
    """What a rule in preview sees."""


@message("verdict.below_noise")
def below_noise(*, noise: Ns) -> None:
    """No problem."""


@message("verdict.unprofiled_rank")
def unprofiled_rank(*, share: Share, who: Message) -> None:
    """A rank that was not collected is waited for."""


@message("verdict.waits_unknown")
def waits_unknown(*, share: Share) -> None:
    """Waits were not recorded."""


@message("verdict.python_unknown")
def python_unknown(*, share: Share) -> None:
    """Python was not recorded."""


@message("verdict.spent")
def spent(*, share: Share, line: Name) -> None:
    """Where the time is spent."""


@message("verdict.spent_on")
def spent_on(*, spent: Message, what: Message) -> None:
    """Where the time is spent, and what most of it is."""


@message("verdict.trains_nothing")
def trains_nothing(*, share: Share, line: Name) -> None:
    """A function that trains nothing."""


@message("verdict.calls_in_a_row")
def calls_in_a_row(*, what: Name, n: Count) -> None:
    """What a function does."""


@message("verdict.called_often")
def called_often(*, n: Count) -> None:
    """What a function does."""


@message("verdict.mostly")
def mostly(*, share: Share, operator: Name) -> None:
    """What a function does."""


@message("verdict.requests")
def requests(*, took: Ns, parts: Message | None = None) -> None:
    """Where requests spend their time."""


@message("verdict.queues")
def queues(*, share: Share) -> None:
    """Where requests spend their time."""


@message("verdict.first_token")
def first_token(*, first: Share, queues: Share) -> None:
    """Where requests spend their time."""
