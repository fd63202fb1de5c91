"""What detection says of steps that became slower, of what costs time, and of numbers that went wrong."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, Ns, Number, Rank, Ranks, Share, Step, message, sentence


@message("jobs.slower")
def slower(
    *, ranks: Ranks, kind: Message, since: Step, noticed: Step, change: Message, share: Share | None = None,
    cause: Message | None = None, culprit: Rank | None = None, over: Step | None = None,
) -> None:  # fmt: skip
    """An alarm: steps became slower. `culprit` is named where several ranks are slower."""


@message("jobs.turns_every")
def turns_every(*, n: Count) -> None:
    """The kind of an alarm: single slow steps at an even distance."""


@message("jobs.change")
def change(*, before: Ns, after: Ns, by: Message) -> None:
    """Typical times of a step before and after."""


@message("jobs.more")
def more(*, share: Share) -> None:
    """By how much steps are longer, less than three times."""


@message("jobs.times")
def times(*, times: Number) -> None:
    """How many times as long steps are."""


@message("jobs.recovered")
def recovered(*, ranks: Ranks, since: Step, after: Ns) -> None:
    """The end of an alarm."""


@message("jobs.straggler")
def straggler(*, rank: Rank, since: Step, work: Ns, others: Ns) -> None:
    """Ranks wait for one in each step."""


@message("jobs.caught_up")
def caught_up(*, ranks: Ranks) -> None:
    """The end of a straggler."""


@message("jobs.costs")
def costs(*, rank: Rank, cause: Message, cost: Ns, share: Share, note: Message | None = None) -> None:
    """What costs a share of all steps, without any change."""


@message("jobs.note_periodic")
def note_periodic(*, n: Count, extra: Ns) -> None:
    """Of slow steps at an even distance: how often, and by how much they are longer."""


@message("jobs.note_straggler")
def note_straggler(*, work: Ns, others: Ns, since: Step | None = None) -> None:
    """Of a straggler: what it and the others work in a step."""


BOUND = sentence("jobs.bound")
"""How the gain of a cause was reckoned."""

VERIFY_STEPS = sentence("jobs.verify_steps")
"""How to see that something helped."""

STEP_BEFORE = sentence("jobs.step_before")
"""Evidence: the typical time of a step before."""

STEP_AFTER = sentence("jobs.step_after")
"""Evidence: the typical time of a step after."""

SCORE = sentence("jobs.score")
"""Evidence: how far the step times are from what they were."""

SHARE_OF_TIME = sentence("jobs.share")
"""Evidence: the share of a cause."""


@message("jobs.loss_not_finite")
def loss_not_finite(*, rank: Rank, step: Step, loss: Name) -> None:
    """The loss is NaN or infinite."""


@message("jobs.gradients_not_finite")
def gradients_not_finite(*, n: Count, rank: Rank, step: Step) -> None:
    """Gradients hold NaN or infinity."""


@message("jobs.loss_jumped")
def loss_jumped(*, rank: Rank, step: Step, loss: Number, usual: Number) -> None:
    """The loss rose at once."""


@message("jobs.gradients_exploded")
def gradients_exploded(*, rank: Rank, step: Step, norm: Number, usual: Number) -> None:
    """The norm of the gradients grew many times at once."""


@message("jobs.gradients_vanished")
def gradients_vanished(*, rank: Rank, step: Step, norm: Number, usual: Number) -> None:
    """The norm of the gradients shrank many times at once."""


@message("jobs.updates_jumped")
def updates_jumped(*, rank: Rank, step: Step, update: Number, usual: Number) -> None:
    """The optimizer changed parameters many times as much as before."""


DO_RECORD = sentence("jobs.do_record")
"""What to do about numbers that are not finite."""

DO_LOOK_FOR_DETACHED = sentence("jobs.do_look_for_detached")
"""What to do about gradients that vanish."""

DO_LOOK_AT_BATCHES = sentence("jobs.do_look_at_batches")
"""What to do about a loss or gradients that jump."""


@message("jobs.no_alarm")
def no_alarm(*, steps: Message) -> None:
    """The answer of a replay that found nothing."""


@message("jobs.alarms")
def alarms(*, n: Count, steps: Message) -> None:
    """The answer of a replay that found something."""


@message("jobs.steps_of")
def steps_of(*, n: Count, ranks: Ranks) -> None:
    """How many steps of which ranks were replayed."""


@message("jobs.damaged")
def damaged(*, n: Count, rank: Rank) -> None:
    """Records of a log that cannot be read."""


LOST_RECORDS = sentence("jobs.lost_records")
"""What damaged records cost."""


@message("jobs.no_preset")
def no_preset(*, preset: Name) -> None:
    """A preset that there is none of."""


@message("jobs.choices")
def choices(*, names: Names) -> None:
    """What can be chosen."""


@message("jobs.no_value")
def no_value(*, value: Name, name: Name) -> None:
    """A setting with a text that is no value for it."""


@message("jobs.number_from")
def number_from(*, least: Number) -> None:
    """Which values a setting takes."""


@message("jobs.whole_number_from")
def whole_number_from(*, least: Number) -> None:
    """Which values a setting takes that is a whole number."""


NO_STEPS_IN_LOG = sentence("jobs.no_steps_in_log")
"""A log without steps."""

NO_LOGS = sentence("jobs.no_logs")
"""A folder without step logs."""

NAME_A_LOG = sentence("jobs.name_a_log")
"""What to give instead."""

NO_LOG = sentence("jobs.no_log")
"""A path that is not there."""

NOT_A_LOG = sentence("jobs.not_a_log")
"""A file of another kind."""

LOGS_KNOWN = sentence("jobs.logs_known")
"""Which logs can be read."""

NO_WALL = sentence("jobs.no_wall")
"""Lines of JSON without the time of a step."""


@message("jobs.quoted")
def quoted(*, text: Name) -> None:
    """Text from outside, or of a part of Hermes that knows no messages, as it is."""
