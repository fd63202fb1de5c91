"""Messages of watchers, captures and run directories."""

from __future__ import annotations

from hermes.base.message import (
    Bytes,
    Count,
    Message,
    Messages,
    Name,
    Names,
    Ns,
    Number,
    Ranks,
    Step,
    Text,
    Word,
    message,
    sentence,
)


class CaptureState(Word):
    """The state of a rank in a capture; see `hermes.inside.wire.control.STATES`."""

    NONE = "none"
    ACCEPTED = "accepted"
    STARTED = "started"
    FINISHED = "finished"
    REFUSED = "refused"
    LATE = "late"
    FAILED = "failed"
    CANCELLED = "cancelled"
    GONE = "gone"


class JobState(Word):
    """The state of a job in the view of its watcher."""

    BASELINE = "baseline"
    WATCHING = "watching"
    AT_RISK = "at risk"
    NO_PROGRESS = "no progress"


# A job that makes no progress ------------------------------------------------------------------------------------


@message("jobs.no_progress")
def no_progress(
    *, waited: Ns, last: Step, gone: Ranks | None = None, behind: Ranks | None = None, places: Messages | None = None
) -> None:
    """An alarm: no step of the job ends any more."""


@message("jobs.stands")
def stands(*, ranks: Ranks, line: Name, collective: Name | None = None) -> None:
    """Where ranks stand: the line of the job's own code, and the awaited collective."""


@message("jobs.do_restart")
def do_restart(*, gone: Ranks) -> None:
    """Advice for a stuck job of which a rank's process ended."""


@message("jobs.do_look_at_absent")
def do_look_at_absent(*, absent: Ranks, collectives: Names) -> None:
    """Advice for a stuck job in which some ranks did not enter a collective."""


DO_READ_STACKS = sentence("jobs.do_read_stacks")
"""Advice for a stuck job whose ranks all gave their stacks: read the stacks."""

DO_DUMP_STACK = sentence("jobs.do_dump_stack")
"""Advice for a stuck job whose ranks gave no stacks: use py-spy."""


@message("jobs.progress")
def progress(*, waited: Ns) -> None:
    """The end of a standstill: steps end again."""


# What a watcher does ---------------------------------------------------------------------------------------------


@message("jobs.watcher_ends")
def watcher_ends(*, why: Text) -> None:
    """Error: a watcher has failed, and the job goes on."""


@message("jobs.not_watched")
def not_watched(*, why: Text) -> None:
    """Error: a job's watcher could not begin."""


@message("jobs.thresholds")
def thresholds(*, now: Message, unused_by: Name | None = None) -> None:
    """Says that thresholds are now in use; `unused_by` is a preset that has none."""


@message("jobs.thresholds_kept")
def thresholds_kept(*, why: Text) -> None:
    """Warning: a file of thresholds cannot be used, so the thresholds stay."""


@message("jobs.thresholds_set")
def thresholds_set(*, values: Names) -> None:
    """The thresholds of `ksigma` that are set, by name and value."""


THRESHOLDS_DEFAULT = sentence("jobs.thresholds_default")
"""Says that no threshold was set for the job."""


@message("jobs.no_capture")
def no_capture(*, why: Text) -> None:
    """Says that an alarm starts no capture, and why."""


@message("jobs.captures_spent")
def captures_spent(*, n: Count) -> None:
    """Reason for no capture: the limit is reached, and the next is allowed in hours."""


@message("jobs.captured_lately")
def captured_lately(*, n: Count) -> None:
    """Reason for no capture: minutes since the last capture."""


@message("jobs.refused_lately")
def refused_lately(*, n: Count) -> None:
    """Reason for no capture: minutes since every rank refused one."""


@message("jobs.capturing")
def capturing(*, n: Count, first: Step) -> None:
    """Says that a watcher has requested a capture, and of which steps."""


@message("jobs.capture_not_whole")
def capture_not_whole(*, answers: Messages) -> None:
    """Says that not every rank has finished its capture."""


@message("jobs.captured")
def captured(*, answers: Messages, folder: Name) -> None:
    """Says that a capture is over, with the ranks' answers and the folder."""


@message("jobs.answer")
def answer(*, ranks: Ranks, state: Message, text: Text | None = None) -> None:
    """The answer of ranks to a capture; `text` is what they add."""


@message("jobs.finding")
def finding(*, found: Text) -> None:
    """The finding of a capture's analysis."""


@message("jobs.report")
def report(*, path: Name) -> None:
    """The path of the report on a capture."""


@message("jobs.of_job")
def of_job(*, job: Name, said: Text) -> None:
    """A message with the name of its job, where several jobs are watched."""


@message("jobs.removed")
def removed(*, job: Name) -> None:
    """Says that a run directory was removed."""


ASKED_BY_HAND = sentence("jobs.asked_by_hand")
"""Reason of a capture: a user requested it by hand."""

ASKED_ON_PAGE = sentence("jobs.asked_on_page")
"""Reason of a capture: a user requested it on the page of running jobs."""

ASKED_OF_LIBKINETO = sentence("jobs.asked_of_libkineto")
"""Reason of a capture: a user requested it of a job that was started without Hermes."""


# What an analysis found ------------------------------------------------------------------------------------------


@message("jobs.found")
def found(*, code: Name, what: Text, do: Text | None = None) -> None:
    """The first finding of a report, with what to do."""


@message("jobs.changed_then")
def changed_then(*, changed: Text, found: Text) -> None:
    """The change before an alarm, then the findings of the capture that the alarm started."""


@message("jobs.no_rule_fired")
def no_rule_fired(*, verdict: Text) -> None:
    """The first sentence of a report without findings."""


@message("jobs.without_device")
def without_device(*, what: Text, why: Text, do: Text | None = None) -> None:
    """An addition to a finding: the device side of the capture could not be read."""


@message("jobs.report_unreadable")
def report_unreadable(*, why: Name) -> None:
    """Error: the report of an analysis cannot be read."""


ANALYSIS_STOPPED = sentence("jobs.analysis_stopped")
"""Says that the job ended before the analysis of its capture."""


@message("jobs.analysis_failed")
def analysis_failed(*, log: Name, why: Name | None = None, how: Message | None = None) -> None:
    """Error: an analysis failed; `why` is its error text, and `how` the signal that ended it."""


ANALYSIS_KILLED = sentence("jobs.analysis_killed")
"""Says that the system has killed an analysis."""


@message("jobs.analysis_signal")
def analysis_signal(*, signal: Name) -> None:
    """Says that a signal has ended an analysis."""


# The picture of running jobs ---------------------------------------------------------------------------------------


@message("jobs.bandwidth")
def bandwidth(*, kind: Name, group: Name, rates: Message, size: Bytes) -> None:
    """The bandwidth of one kind of collective of one group."""


@message("jobs.rate")
def rate(*, rate: Number) -> None:
    """The bandwidth of one rank, in gigabytes a second."""


@message("jobs.rates")
def rates(*, least: Number, most: Number) -> None:
    """The bandwidth of the slowest and the fastest rank, in gigabytes a second."""
