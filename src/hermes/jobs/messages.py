"""What watchers, captures and run directories say."""

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
    """How far a rank is with a capture; see `hermes.inside.wire.control.STATES`."""

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
    """What a watcher says of a job."""

    BASELINE = "baseline"
    WATCHING = "watching"
    AT_RISK = "at risk"
    NO_PROGRESS = "no progress"


# A job that makes no progress ------------------------------------------------------------------------------------


@message("jobs.no_progress")
def no_progress(
    *, waited: Ns, last: Step, gone: Ranks | None = None, behind: Ranks | None = None, places: Messages | None = None
) -> None:
    """No step ends any more."""


@message("jobs.stands")
def stands(*, ranks: Ranks, line: Name, collective: Name | None = None) -> None:
    """Where ranks stand: the line of the job's own code, and the collective that it waits in."""


@message("jobs.do_restart")
def do_restart(*, gone: Ranks) -> None:
    """What to do where a rank's process ended."""


@message("jobs.do_look_at_absent")
def do_look_at_absent(*, absent: Ranks, collectives: Names) -> None:
    """What to do where some ranks did not enter a collective."""


DO_READ_STACKS = sentence("jobs.do_read_stacks")
"""What to do where all ranks have said where they stand."""

DO_DUMP_STACK = sentence("jobs.do_dump_stack")
"""What to do where no rank has said where it stands."""


@message("jobs.progress")
def progress(*, waited: Ns) -> None:
    """The end of a standstill."""


# What a watcher does ---------------------------------------------------------------------------------------------


@message("jobs.watcher_ends")
def watcher_ends(*, why: Text) -> None:
    """A watcher has failed."""


@message("jobs.not_watched")
def not_watched(*, why: Text) -> None:
    """A watcher could not begin."""


@message("jobs.thresholds")
def thresholds(*, now: Message, unused_by: Name | None = None) -> None:
    """Thresholds were taken up; `unused_by` is a preset that has none."""


@message("jobs.thresholds_kept")
def thresholds_kept(*, why: Text) -> None:
    """A file of thresholds cannot be used."""


@message("jobs.thresholds_set")
def thresholds_set(*, values: Names) -> None:
    """Thresholds by name and value."""


THRESHOLDS_DEFAULT = sentence("jobs.thresholds_default")
"""No threshold was set for the job."""


@message("jobs.no_capture")
def no_capture(*, why: Text) -> None:
    """An alarm starts no capture."""


@message("jobs.captures_spent")
def captures_spent(*, n: Count) -> None:
    """Why an alarm starts no capture: there were as many as there may be."""


@message("jobs.captured_lately")
def captured_lately(*, n: Count) -> None:
    """Why an alarm starts no capture: minutes since the last one."""


@message("jobs.refused_lately")
def refused_lately(*, n: Count) -> None:
    """Why an alarm starts no capture: minutes since every rank refused one."""


@message("jobs.capturing")
def capturing(*, n: Count, first: Step) -> None:
    """A capture was asked for."""


@message("jobs.capture_not_whole")
def capture_not_whole(*, answers: Messages) -> None:
    """Not every rank has finished its capture."""


@message("jobs.captured")
def captured(*, answers: Messages, folder: Name) -> None:
    """A capture is over: what the ranks say of it, and where it is."""


@message("jobs.answer")
def answer(*, ranks: Ranks, state: Message, text: Text | None = None) -> None:
    """What ranks say of a capture; `text` is what they add."""


@message("jobs.finding")
def finding(*, found: Text) -> None:
    """What the analysis of a capture found."""


@message("jobs.report")
def report(*, path: Name) -> None:
    """Where the report on a capture is."""


@message("jobs.of_job")
def of_job(*, job: Name, said: Text) -> None:
    """Which job something is said of, where several are watched."""


@message("jobs.removed")
def removed(*, job: Name) -> None:
    """A run directory was removed."""


ASKED_BY_HAND = sentence("jobs.asked_by_hand")
"""Why a capture was made."""

ASKED_ON_PAGE = sentence("jobs.asked_on_page")
"""Why a capture was made: from the page of running jobs."""

ASKED_OF_LIBKINETO = sentence("jobs.asked_of_libkineto")
"""Why a capture was made: of a job that was started without Hermes."""


# What an analysis found ------------------------------------------------------------------------------------------


@message("jobs.found")
def found(*, code: Name, what: Text, do: Text | None = None) -> None:
    """The first finding of a report."""


@message("jobs.no_rule_fired")
def no_rule_fired(*, verdict: Text) -> None:
    """A report without findings: its first sentence."""


@message("jobs.without_device")
def without_device(*, what: Text, why: Text, do: Text | None = None) -> None:
    """Behind a finding: the device side of the capture could not be read."""


@message("jobs.report_unreadable")
def report_unreadable(*, why: Name) -> None:
    """The report that an analysis should have written."""


ANALYSIS_STOPPED = sentence("jobs.analysis_stopped")
"""The job ended before the analysis of its capture."""


@message("jobs.analysis_failed")
def analysis_failed(*, log: Name, why: Name | None = None) -> None:
    """An analysis ended with an error; `why` is what it said."""


# The picture of running jobs ---------------------------------------------------------------------------------------


@message("jobs.bandwidth")
def bandwidth(*, kind: Name, group: Name, rates: Message, size: Bytes) -> None:
    """The bandwidth of one kind of collective of one group."""


@message("jobs.rate")
def rate(*, rate: Number) -> None:
    """Gigabytes a second of one rank."""


@message("jobs.rates")
def rates(*, least: Number, most: Number) -> None:
    """Gigabytes a second of the slowest and the fastest rank."""
