"""Messages of `hermes whatif` and of the search of communication settings."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Name, Names, Ns, message, sentence

NOTHING_ALIKE = sentence("whatif.do.nothing_alike")


@message("whatif.matches_nothing")
def matches_nothing(*, change: Name) -> None:
    """Error: a change touches nothing in the step."""


@message("whatif.do.ask_for")
def ask_for(*, changes: Names) -> None:
    """Hint: similar changes that touch something in the step."""


PLAN_NOTHING_SENT = sentence("whatif.plan.nothing_sent")
PLAN_ONE_SIZE = sentence("whatif.plan.one_size")
PLAN_NOT_TOLD = sentence("whatif.plan.not_told")
PLAN_TOLD = sentence("whatif.plan.told")
PLAN_EVENLY = sentence("whatif.plan.evenly")
PLAN_SENT = sentence("whatif.plan.title.sent")
PLAN_SETTINGS = sentence("whatif.plan.title.settings")
PLAN_NOW = sentence("whatif.plan.now")
PLAN_THEN = sentence("whatif.plan.then")
PLAN_HOW = sentence("whatif.plan.column.how")
PLAN_BUCKETS = sentence("whatif.plan.column.buckets")
PLAN_LARGEST = sentence("whatif.plan.column.largest")
PLAN_BEGINS = sentence("whatif.plan.column.begins")
PLAN_TAIL = sentence("whatif.plan.column.tail")
UNITS_NOT_TOLD = sentence("whatif.units.not_told")
UNITS_MEMORY_NOT_KNOWN = sentence("whatif.units.memory_not_known")
UNITS_NO_MORE_MEMORY = sentence("whatif.units.no_more_memory")
UNITS_GATHERED = sentence("whatif.units.title.gathered")
UNITS_MANY = sentence("whatif.units.column.units")
UNITS_LARGEST = sentence("whatif.units.column.largest")
UNITS_FORWARD = sentence("whatif.units.column.forward")
UNITS_BACKWARD = sentence("whatif.units.column.backward")
UNITS_EXPOSED = sentence("whatif.units.column.exposed")
UNITS_HELD = sentence("whatif.units.column.held")
NO_MARKED_STEP = sentence("whatif.no_marked_step")
DO_MARK_STEPS = sentence("whatif.do.mark_steps")
NO_DEVICE_STEP = sentence("whatif.no_device_step")
DO_DEVICE_ACTIVITIES = sentence("whatif.do.device_activities")
DO_SUCH_AS = sentence("whatif.do.such_as")
DO_FACTORS = sentence("whatif.do.factors")


@message("whatif.plan.best")
def plan_best(*, size: Name, step: Ns, low: Ns, high: Ns, why: Message, ready: Message) -> None:
    """Message: the bucket size that makes the step shortest, its gain, why, and how that is known."""


@message("whatif.plan.no_gain")
def plan_no_gain(*, tried: Count, pad: Ns) -> None:
    """Message: no bucket size makes the step shorter by more than two runs differ."""


@message("whatif.plan.earlier")
def plan_earlier(
    *, now: Count, largest: Bytes, begins: Ns, tail: Ns, then: Count, earlier: Ns, left: Ns
) -> None:  # fmt: skip
    """Reason: smaller buckets begin earlier; the first waits less for its last gradient, less is left at the end."""


@message("whatif.plan.fewer")
def plan_fewer(*, now: Count, fixed: Ns, tail: Ns, then: Count, left: Ns) -> None:
    """Reason: larger buckets are fewer, and each collective takes a fixed time whatever its size."""


@message("whatif.units.best")
def units_best(*, do: Message, step: Ns, low: Ns, high: Ns, why: Message, memory: Message) -> None:
    """Message: the layout of sharded units that makes the step shortest, its gain, why, and its extra memory."""


@message("whatif.units.ahead")
def units_ahead(*, forward: Count, backward: Count) -> None:
    """Advice: how many units before their use to launch all-gathers."""


@message("whatif.units.merged")
def units_merged(*, merged: Count, forward: Count, backward: Count) -> None:
    """Advice: how many neighbours to merge into a unit, and how many units ahead to launch all-gathers."""


@message("whatif.units.beside")
def units_beside(*, exposed: Ns, left: Ns) -> None:
    """Reason: gathers launched earlier run beside the compute of other units."""


@message("whatif.units.fewer")
def units_fewer(*, fixed: Ns, now: Count, then: Count, exposed: Ns, left: Ns) -> None:
    """Reason: larger units are fewer, and each collective takes a fixed time whatever its size."""


@message("whatif.units.more_memory")
def units_more_memory(*, more: Bytes, held: Bytes, now: Bytes) -> None:
    """Message part: how many more bytes of whole parameters a rank holds at once."""


@message("whatif.units.no_gain")
def units_no_gain(*, tried: Count, pad: Ns) -> None:
    """Message: no layout of units makes the step shorter by more than two runs differ."""


@message("whatif.no_change")
def no_change(*, spec: Name) -> None:
    """Error: a text means no change."""


@message("whatif.no_factor")
def no_factor(*, text: Name, spec: Name) -> None:
    """Error: a text is not a valid factor."""


@message("whatif.no_host_work")
def no_host_work(*, which: Name, spec: Name) -> None:
    """Error: the hosts of the step do no such work."""


@message("whatif.do.host_work")
def do_host_work(*, known: Name) -> None:
    """Hint: the kinds of host work that can be changed."""
