"""Messages about engines that cannot work, and about ranks that an engine lost."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Rank, message, sentence

NO_RAY = sentence("engines.no_ray")
DO_CHOOSE = sentence("engines.do.choose")
DO_INSTALL_RAY = sentence("engines.do.install_ray")
DO_GIVE_CLUSTER = sentence("engines.do.give_cluster")
DO_SEE_LOGS = sentence("engines.do.see_logs")
DO_FEWER_PROCESSES = sentence("engines.do.fewer_processes")


@message("engines.unknown")
def unknown(*, name: Name) -> None:
    """Error: no engine has this name."""


@message("engines.no_answer")
def no_answer(*, why: Name) -> None:
    """Error: a cluster does not answer."""


@message("engines.node_lost")
def node_lost(*, rank: Rank, times: Count, error: Name) -> None:
    """Error: a rank is lost because the nodes that worked on it were lost."""


@message("engines.process_died")
def process_died(*, rank: Rank, times: Count, how: Message) -> None:
    """Error: a rank is lost because the processes that worked on it died."""


@message("engines.ended_with")
def ended_with(*, code: Name) -> None:
    """Message part: the exit code with which a process ended."""


@message("engines.ended_by")
def ended_by(*, signal: Name) -> None:
    """Message part: the name of the signal that ended a process."""


@message("engines.ended_by_number")
def ended_by_number(*, number: Name) -> None:
    """Message part: the number of the signal that ended a process."""


@message("engines.rank_failed")
def rank_failed(*, rank: Rank) -> None:
    """Error: the work on a rank hit a defect of Hermes."""
