"""Messages of the detection: slower steps, causes that cost time throughout, and wrong numbers of a training."""

from __future__ import annotations

from hermes.base.message import (
    Count,
    Message,
    Messages,
    Name,
    Names,
    Ns,
    Number,
    Rank,
    Ranks,
    Share,
    Step,
    message,
    sentence,
)


@message("jobs.slower")
def slower(
    *, ranks: Ranks, kind: Message, since: Step, noticed: Step, change: Message, share: Share | None = None,
    cause: Message | None = None, culprit: Rank | None = None, lost: Ns | None = None, first: Step | None = None,
    over: Step | None = None,
) -> None:  # fmt: skip
    """An alarm: steps became slower. `culprit` is named where several ranks are slower; `lost` is counted since `first`
    where steps were slower before."""


@message("jobs.turns_every")
def turns_every(*, n: Count) -> None:
    """The kind of an alarm: single slow steps at an even distance."""


@message("jobs.change")
def change(*, before: Ns, after: Ns, by: Message) -> None:
    """Typical times of a step before and after a change."""


@message("jobs.more")
def more(*, share: Share) -> None:
    """By what share steps are longer, below three times as long."""


@message("jobs.times")
def times(*, times: Number) -> None:
    """How many times as long steps are."""


@message("jobs.recovered")
def recovered(*, ranks: Ranks, since: Step, after: Ns, lost: Ns | None = None) -> None:
    """The end of an alarm: steps are as fast as before."""


@message("jobs.straggler")
def straggler(*, rank: Rank, since: Step, work: Ns, others: Ns) -> None:
    """A straggler: the other ranks wait for one rank in each step."""


@message("jobs.caught_up")
def caught_up(*, ranks: Ranks) -> None:
    """The end of a straggler: the other ranks no longer wait for it."""


@message("jobs.changed")
def changed(
    *, since: Step, before: Ns, after: Ns, parts: Messages, leaf: Message | None = None, culprit: Rank | None = None,
    work: Message | None = None,
) -> None:  # fmt: skip
    """A change where steps became slower: the parts that grew, `leaf` in the capture, the awaited rank, the work."""


@message("jobs.changed_singly")
def changed_singly(
    *, since: Step, before: Ns, after: Ns, parts: Messages, leaf: Message | None = None, culprit: Rank | None = None,
    work: Message | None = None,
) -> None:  # fmt: skip
    """A change of single slow steps against the other steps: the parts that grew, `leaf`, the awaited rank, the
    work."""


@message("jobs.grew")
def grew(*, what: Message, before: Ns, after: Ns) -> None:
    """A part of a step that grew, with its time before and after."""


@message("jobs.mostly")
def mostly(*, leaf: Message, share: Share, place: Name | None = None) -> None:
    """The leaf that makes up most of a part of a step in a capture."""


NOTHING_TOLD = sentence("jobs.nothing_told")
"""Says that no counted part of a step grew."""


@message("jobs.work_changed")
def work_changed(*, unit: Message, before: Number, after: Number) -> None:
    """A step has more or less work than before."""


@message("jobs.unit")
def unit(*, name: Name) -> None:
    """The unit in which work is counted."""


@message("jobs.untold")
def untold(*, share: Share) -> None:
    """Ranks wait, but their collectives are not timed, so the straggler is unknown."""


UNTOLD_DEVICE = sentence("jobs.untold_device")
"""Ranks with a device: the host does not wait for collectives, so the straggler is unknown."""

LOST_STRAGGLER = sentence("jobs.lost_straggler")
"""The loss where the straggler is unknown."""


@message("jobs.costs")
def costs(*, rank: Rank, cause: Message, cost: Ns, share: Share, note: Message | None = None) -> None:
    """A cause that costs a share of all steps, without any change."""


@message("jobs.note_periodic")
def note_periodic(*, n: Count, extra: Ns) -> None:
    """A note on slow steps at an even distance: how often they come, and how much longer they are."""


@message("jobs.note_straggler")
def note_straggler(*, work: Ns, others: Ns, since: Step | None = None) -> None:
    """A note on a straggler: its own time and the others' own time in a step."""


BOUND = sentence("jobs.bound")
"""Says how the gain of a cause was computed."""

VERIFY_STEPS = sentence("jobs.verify_steps")
"""Says how to check that a fix helped."""

STEP_BEFORE = sentence("jobs.step_before")
"""Evidence: the typical time of a step before the alarm."""

STEP_AFTER = sentence("jobs.step_after")
"""Evidence: the typical time of a step since the alarm."""

SCORE = sentence("jobs.score")
"""Evidence: how far the step times are from their earlier values."""

SHARE_OF_TIME = sentence("jobs.share")
"""Evidence: the share of all time that a cause costs."""


@message("jobs.loss_not_finite")
def loss_not_finite(*, rank: Rank, step: Step, loss: Name) -> None:
    """The loss of a rank is NaN or infinite."""


@message("jobs.gradients_not_finite")
def gradients_not_finite(*, n: Count, rank: Rank, step: Step) -> None:
    """Gradients of a rank hold NaN or infinity."""


@message("jobs.loss_jumped")
def loss_jumped(*, rank: Rank, step: Step, loss: Number, usual: Number) -> None:
    """The loss of a rank rose suddenly."""


@message("jobs.gradients_exploded")
def gradients_exploded(*, rank: Rank, step: Step, norm: Number, usual: Number) -> None:
    """The norm of the gradients suddenly grew many times."""


@message("jobs.gradients_vanished")
def gradients_vanished(*, rank: Rank, step: Step, norm: Number, usual: Number) -> None:
    """The norm of the gradients suddenly shrank many times."""


@message("jobs.updates_jumped")
def updates_jumped(*, rank: Rank, step: Step, update: Number, usual: Number) -> None:
    """The optimizer suddenly changed parameters many times as much as before."""


DO_RECORD = sentence("jobs.do_record")
"""Advice for a loss or gradients that are not finite."""

DO_LOOK_FOR_DETACHED = sentence("jobs.do_look_for_detached")
"""Advice for gradients that vanish."""

DO_LOOK_AT_BATCHES = sentence("jobs.do_look_at_batches")
"""Advice for a loss or gradients that jump."""


@message("jobs.no_alarm")
def no_alarm(*, steps: Message) -> None:
    """Says that a replay of step logs found no alarm."""


@message("jobs.alarms")
def alarms(*, n: Count, steps: Message) -> None:
    """Says how many alarms a replay of step logs found."""


@message("jobs.steps_of")
def steps_of(*, n: Count, ranks: Ranks) -> None:
    """The numbers of replayed steps and ranks."""


@message("jobs.damaged")
def damaged(*, n: Count, rank: Rank) -> None:
    """Warning: records of a log cannot be read."""


LOST_RECORDS = sentence("jobs.lost_records")
"""The loss from damaged records: their steps."""


@message("jobs.no_preset")
def no_preset(*, preset: Name) -> None:
    """Error: the given preset does not exist."""


@message("jobs.choices")
def choices(*, names: Names) -> None:
    """Advice: the values that can be chosen for a setting."""


@message("jobs.no_value")
def no_value(*, value: Name, name: Name) -> None:
    """Error: a setting has a text that is no value for it."""


@message("jobs.number_from")
def number_from(*, least: Number) -> None:
    """Advice: the numbers that a setting takes, from `least` up."""


@message("jobs.whole_number_from")
def whole_number_from(*, least: Number) -> None:
    """The whole numbers that a setting takes."""


NO_STEPS_IN_LOG = sentence("jobs.no_steps_in_log")
"""Error: a log holds no steps."""

NO_LOGS = sentence("jobs.no_logs")
"""Error: a folder holds no step logs."""

NAME_A_LOG = sentence("jobs.name_a_log")
"""Advice: give a step log or a run directory."""

NO_LOG = sentence("jobs.no_log")
"""Error: the given path of a log does not exist."""

NOT_A_LOG = sentence("jobs.not_a_log")
"""Error: a file is no step log."""

LOGS_KNOWN = sentence("jobs.logs_known")
"""Advice: the kinds of logs that can be read."""

NO_WALL = sentence("jobs.no_wall")
"""Error: lines of JSON lack the time of a step."""


@message("jobs.quoted")
def quoted(*, text: Name) -> None:
    """Text from outside, or from a part of Hermes without messages, unchanged."""
