"""Messages of a verdict: the job's size, its device's activity, and the largest possible gain."""

from __future__ import annotations

from hermes.base.message import (
    Count,
    Message,
    Messages,
    Name,
    Ns,
    Number,
    Rank,
    Share,
    Step,
    Steps,
    Text,
    message,
    sentence,
)

UNKNOWN = sentence("verdict.unknown")
NO_DEVICE = sentence("verdict.no_device")
UNLIKE = sentence("verdict.unlike")
EACH_STEP = sentence("verdict.each_step")
THE_CAPTURE = sentence("verdict.the_capture")
ABSENT = sentence("verdict.absent")
NO_ROOF = sentence("verdict.no_roof")
NO_LINE = sentence("verdict.no_line")
ALL_STEPS = sentence("verdict.all_steps")
LIMIT_TYPE = sentence("verdict.limit_type")
UNIT_CUBE = sentence("verdict.unit_cube")
UNIT_VECTOR = sentence("verdict.unit_vector")
UNIT_SCALAR = sentence("verdict.unit_scalar")
UNIT_LOADING = sentence("verdict.unit_loading")
UNIT_STORING = sentence("verdict.unit_storing")


@message("verdict.of")
def of(
    *,
    size: Message,
    start: Message | None = None,
    state: Message | None = None,
    waits: Message | None = None,
    ends: Message | None = None,
    said: Message,
    long: Message | None = None,
    line: Message | None = None,
    unlike: Message | None = None,
    device: Message | None = None,
) -> None:
    """Message: the verdict of a report."""


@message("verdict.size")
def size(*, ranks: Message | None = None, steps: Message) -> None:
    """Message part: the size of the job in ranks and steps."""


@message("verdict.ranks")
def ranks(*, n: Count) -> None:
    """Message part: how many ranks were collected."""


@message("verdict.part_of_ranks")
def part_of_ranks(*, n: Count, expected: Count) -> None:
    """Message part: how many ranks were collected, and how many the job has."""


@message("verdict.steps")
def steps(*, n: Count, length: Ns, mean: Ns | None = None) -> None:
    """Message part: the number of steps, and the length of the typical step."""


@message("verdict.a_capture")
def a_capture(*, length: Ns) -> None:
    """Message part: the length of a capture without steps."""


@message("verdict.idle")
def idle(*, share: Share) -> None:
    """Message part: the share of the step in which devices are idle."""


@message("verdict.busy")
def busy(*, share: Share) -> None:
    """Message part: the share of the step in which devices are busy."""


@message("verdict.idle_on")
def idle_on(*, rank: Rank, share: Share) -> None:
    """Message part: the idle share of the device of one rank, for which others wait."""


@message("verdict.waits")
def waits(*, share: Share, rank: Rank | None = None) -> None:
    """Message part: the share of the step in which ranks wait for each other."""


@message("verdict.start")
def start(*, share: Share) -> None:
    """Message part: the share of a capture that is the start of the job."""


@message("verdict.ends")
def ends(*, what: Text) -> None:
    """Message part: the risk that ends the job."""


@message("verdict.loss")
def loss(
    *,
    share: Share,
    of: Message,
    ns: Ns,
    leaf: Text,
    rank: Rank | None = None,
    then: Message | None = None,
    what: Name | None = None,
    place: Name | None = None,
    limit: Messages | None = None,
    curable: Message | None = None,
    alone: Message | None = None,
) -> None:
    """Message part: a kind of leaf, with its share, its place, what limits it, and what can be won."""


@message("verdict.two")
def two(*, most: Message, loss: Message) -> None:
    """Message part: the kind with most of the time, and the kind with the largest possible gain."""


@message("verdict.long_steps")
def long_steps(
    *, n: Count, of: Count, which: Steps | None = None, rank: Rank | None = None, times: Number, leaf: Text, extra: Ns
) -> None:
    """Message part: the steps that take much longer than the typical step, and what they do more."""


@message("verdict.limit_cores")
def limit_cores(*, share: Share) -> None:
    """Message part: the share of the cores that have no work."""


@message("verdict.limit_unit")
def limit_unit(*, unit: Message, share: Share) -> None:
    """Message part: the unit of the cores that is busy for most of the time."""


@message("verdict.alone")
def alone(*, rank: Rank, ns: Ns, second: Rank) -> None:
    """Message part: what curing the named rank alone gives at most, since a second rank is late, too."""


@message("verdict.from_step")
def from_step(*, step: Step, rank: Rank) -> None:
    """Message part: the rank on which the path of waits lies from a step on."""


@message("verdict.after")
def after(*, ns: Ns, rank: Rank) -> None:
    """Message part: the rank on which the path of waits lies after some time of the capture."""


@message("verdict.wait_for")
def wait_for(*, rank: Rank, absent: Message | None = None) -> None:
    """Message part: the leaf is a wait for a rank."""


@message("verdict.not_recorded")
def not_recorded(*, following: Name) -> None:
    """Message part: the leaf is time without any record."""


@message("verdict.curable")
def curable(*, share: Share) -> None:
    """Message part: the share of the leaf that can be gained."""


@message("verdict.made_of")
def made_of(*, parts: Messages, place: Name | None = None, limit: Messages | None = None) -> None:
    """Message part: the largest kinds of leaf in the steps."""


@message("verdict.part")
def part(*, share: Share, leaf: Text, what: Name | None = None) -> None:
    """Message part: one kind of leaf and its share of the steps."""


@message("verdict.attained")
def attained(*, share: Share) -> None:
    """Message part: how close the largest kind comes to what the chip attains."""


@message("verdict.requests")
def requests(*, took: Ns, parts: Message | None = None) -> None:
    """Message: how long requests took, and where they spent the time."""


@message("verdict.queues")
def queues(*, share: Share) -> None:
    """Message part: the share of the requests' time spent in queues."""


@message("verdict.first_token")
def first_token(*, first: Share, queues: Share) -> None:
    """Message part: the shares of the requests' time up to the first token and in queues."""


@message("verdict.no_host")
def no_host(*, how: Name | None = None, sums: Message | None = None) -> None:
    """Message part: the host has no timeline, how to record one, and what sums tell."""


@message("verdict.sums")
def sums(
    *, device: Message | None = None, host: Message | None = None, timeline: Name, again: Name | None = None
) -> None:
    """Message: the verdict of a capture that holds sums alone, and which files hold the timeline."""


@message("verdict.sums_of_device")
def sums_of_device(*, ns: Ns, parts: Messages) -> None:
    """Message part: the device work of a capture, and its largest kinds."""


@message("verdict.sums_of_host")
def sums_of_host(*, calls: Messages) -> None:
    """Message part: the longest calls of the host that do not wait."""


@message("verdict.sum_of_call")
def sum_of_call(*, name: Name, ns: Ns) -> None:
    """Message part: a call of the host, and the time in all calls of it."""
