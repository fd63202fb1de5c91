"""Messages about several captures: which one is read, what is lost by leaving others out, and how to choose another."""

from __future__ import annotations

from hermes.base.message import Count, Message, Messages, Name, Rank, message, sentence

LOST_REQUESTS = sentence("read.lost.requests")
LOST_RANK = sentence("read.lost.rank")
LOST_ALL_BUT_LAST = sentence("read.lost.all_but_last")
DO_KEEP_INFO = sentence("read.do.keep_info")
DO_CHOOSE_BY_PATH = sentence("read.do.choose_by_path")
DO_ONE_JOB = sentence("read.do.one_job")
DO_ONE_SERVICE = sentence("read.do.one_service")


@message("read.lost.runs")
def lost_runs(*, n: Count) -> None:
    """Message part: how many captures of other runs are left out."""


@message("read.lost.jobs")
def lost_jobs(*, n: Count) -> None:
    """Message part: how many captures of other jobs are left out."""


@message("read.do.choose")
def do_choose(*, capture: Name) -> None:
    """Hint: how to choose a capture by its name."""


@message("read.same_rank")
def same_rank(*, n: Count, rank: Rank) -> None:
    """Message: several captures name the same rank."""


@message("read.several_services")
def several_services(*, n: Count) -> None:
    """Message: captures of several services were given."""


@message("read.rank_assumed")
def rank_assumed(*, rank: Rank) -> None:
    """Message: the rank of a capture is unknown, and a number is assumed."""


@message("read.captured_again")
def captured_again(*, n: Count, rank: Rank, latest: Name) -> None:
    """Message: a rank has several captures, and the latest is read."""


@message("read.different_jobs")
def different_jobs(*, jobs: Messages, chosen: Message) -> None:
    """Message: the captures belong to several jobs, and one job is chosen."""


@message("read.captures_of_job")
def captures_of_job(*, n: Count, size: Message) -> None:
    """Message part: how many captures belong to a job of a size."""


@message("read.job_size")
def job_size(*, n: Count) -> None:
    """Message part: how many ranks a job has."""


@message("read.different_times")
def different_times(*, n: Count, capture: Name) -> None:
    """Message: processes have several captures, taken at different times."""


@message("read.different_runs")
def different_runs(*, n: Count, capture: Name) -> None:
    """Message: the captures belong to several runs of a job."""
