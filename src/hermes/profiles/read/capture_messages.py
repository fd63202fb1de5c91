"""What is said of several captures: which of them is read, what is left out by that, and how to choose another."""

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
    """Lost: captures."""


@message("read.lost.jobs")
def lost_jobs(*, n: Count) -> None:
    """Lost: captures."""


@message("read.do.choose")
def do_choose(*, capture: Name) -> None:
    """How to choose a capture."""


@message("read.same_rank")
def same_rank(*, n: Count, rank: Rank) -> None:
    """Captures say the same rank."""


@message("read.several_services")
def several_services(*, n: Count) -> None:
    """Several services were given."""


@message("read.rank_assumed")
def rank_assumed(*, rank: Rank) -> None:
    """A rank is not known."""


@message("read.captured_again")
def captured_again(*, n: Count, rank: Rank, latest: Name) -> None:
    """A rank has several captures."""


@message("read.different_jobs")
def different_jobs(*, jobs: Messages, chosen: Message) -> None:
    """Captures are of several jobs."""


@message("read.captures_of_job")
def captures_of_job(*, n: Count, size: Message) -> None:
    """Captures of one job."""


@message("read.job_size")
def job_size(*, n: Count) -> None:
    """The size of a job."""


@message("read.different_times")
def different_times(*, n: Count, capture: Name) -> None:
    """Processes have several captures."""


@message("read.different_runs")
def different_runs(*, n: Count, capture: Name) -> None:
    """Captures are of several runs."""
