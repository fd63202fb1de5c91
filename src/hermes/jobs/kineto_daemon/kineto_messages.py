"""Messages of the stand-in for Kineto's daemon: about its socket, the asking processes, and traces."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Messages, Name, Names, Ns, Rank, Ranks, Text, message, sentence

# The socket ----------------------------------------------------------------------------------------------------------


@message("jobs.kineto.short")
def short(*, size: Bytes) -> None:
    """Reason to ignore a datagram: it is too short for a message."""


@message("jobs.kineto.long")
def long(*, most: Bytes) -> None:
    """Reason to ignore a datagram: it is longer than any message."""


@message("jobs.kineto.other_size")
def other_size(*, claimed: Bytes, size: Bytes) -> None:
    """Reason to ignore a message: its head states a wrong size."""


@message("jobs.kineto.unknown")
def unknown(*, kind: Name, size: Bytes) -> None:
    """Reason to ignore a message: its kind is unknown."""


@message("jobs.kineto.other_user")
def other_user(*, user: Name) -> None:
    """Reason to ignore a datagram: it comes from another user."""


OTHER_SOCKET = sentence("jobs.kineto.other_socket")
"""Reason to ignore a datagram: it comes from a socket that is not libkineto's."""


@message("jobs.kineto.name_taken")
def name_taken(*, name: Name, why: Name) -> None:
    """Error: another daemon has the abstract name."""


@message("jobs.kineto.socket_taken")
def socket_taken(*, path: Name) -> None:
    """Error: another daemon has the socket that libkineto would use."""


@message("jobs.kineto.folder_taken")
def folder_taken(*, folder: Name) -> None:
    """Error: another daemon has the socket folder."""


@message("jobs.kineto.cannot_look")
def cannot_look(*, folder: Name, why: Name) -> None:
    """Error: a socket folder cannot be read."""


@message("jobs.kineto.no_folder")
def no_folder(*, folder: Name) -> None:
    """Error: the path given as socket folder is no folder."""


@message("jobs.kineto.open_folder")
def open_folder(*, folder: Name) -> None:
    """Error: other users can write to a socket folder."""


@message("jobs.kineto.long_name")
def long_name(*, folder: Name, most: Bytes) -> None:
    """Error: the name of a socket folder is longer than libkineto has room for."""


STOP_THE_OTHER = sentence("jobs.kineto.stop_the_other")
"""Advice where another daemon runs: stop that daemon, or use another socket folder."""

# Processes that ask ---------------------------------------------------------------------------------------------------


@message("jobs.kineto.words_missing")
def words_missing(*, pid: Name, torch: Name, words: Names) -> None:
    """Error: the libkineto of a process does not know some keys of the configuration."""


@message("jobs.kineto.writes_elsewhere")
def writes_elsewhere(*, pid: Name, torch: Name, folder: Name) -> None:
    """Error: the libkineto of a process writes traces only below one folder."""


@message("jobs.kineto.give_that_folder")
def give_that_folder(*, variable: Name) -> None:
    """Advice for a process with a fixed trace folder: use a folder below it."""


START_OTHERWISE = sentence("jobs.kineto.start_otherwise")
"""Advice for a process that libkineto cannot capture: start the job with `hermes run`."""


@message("jobs.kineto.not_asking")
def not_asking(*, name: Name) -> None:
    """Error: no asking process has that name."""


@message("jobs.kineto.not_one")
def not_one(*, name: Name) -> None:
    """Error: processes of several jobs have that name."""


SEVERAL = sentence("jobs.kineto.several")
"""Error: several jobs ask, and the user named none."""


@message("jobs.kineto.name_one")
def name_one(*, processes: Names) -> None:
    """Hint: the processes that can be named."""


@message("jobs.kineto.rank_not_asking")
def rank_not_asking(*, rank: Rank) -> None:
    """Error: a rank does not ask this daemon."""


@message("jobs.kineto.ranks_asking")
def ranks_asking(*, ranks: Ranks) -> None:
    """Hint: the ranks that ask the daemon."""


NOBODY_ASKS = sentence("jobs.kineto.nobody_asks")
"""Error: no process asks the daemon."""


@message("jobs.kineto.start_with")
def start_with(*, ignored: Messages | None = None) -> None:
    """Advice on how to start a job that asks the daemon, with the datagrams ignored so far."""


@message("jobs.kineto.cannot_write_to")
def cannot_write_to(*, path: Name) -> None:
    """Error: libkineto would misread the path for traces."""


PLAIN_PATH = sentence("jobs.kineto.plain_path")
"""Advice: the paths that libkineto can read."""

# A capture ------------------------------------------------------------------------------------------------------------


ASKED_NO_MORE = sentence("jobs.kineto.asked_no_more")
"""The answer for a rank that did not ask again and so got no configuration."""


@message("jobs.kineto.nothing_written")
def nothing_written(*, n: Count) -> None:
    """The answer for a rank that wrote nothing for so many minutes."""


NO_TRACE = sentence("jobs.kineto.no_trace")
"""The answer for a rank that recorded, and wrote no trace."""


@message("jobs.kineto.too_large")
def too_large(*, size: Bytes, most: Bytes) -> None:
    """The answer for a rank whose trace is larger than allowed."""


@message("jobs.kineto.unreadable")
def unreadable(*, why: Name) -> None:
    """The answer for a rank whose trace has an unexpected layout."""


@message("jobs.kineto.steps")
def steps(*, n: Count, file: Name) -> None:
    """The answer for a rank whose trace holds so many steps."""


@message("jobs.kineto.no_steps")
def no_steps(*, file: Name) -> None:
    """The answer for a rank whose trace holds no steps."""


NO_OPTIMIZER_STEP = sentence("jobs.kineto.no_optimizer_step")
"""Warning: a trace without steps was made before the first optimizer step."""


@message("jobs.kineto.apart")
def apart(*, apart: Ns, step: Ns) -> None:
    """Warning: ranks did not record the same steps."""


@message("jobs.kineto.listening")
def listening(*, n: Count) -> None:
    """Says that the daemon waits for processes, which ask every so many seconds."""


@message("jobs.kineto.asks")
def asks(*, rank: Rank, pid: Name, torch: Name, command: Name) -> None:
    """Names a process that will be recorded."""


AGAIN = sentence("jobs.kineto.again")
"""Says that ranks began at different steps, and are asked once more."""


@message("jobs.kineto.cannot_take_back")
def cannot_take_back(*, folder: Name) -> None:
    """Says after an interrupt that configurations already sent still cause traces."""


@message("jobs.kineto.ignored")
def ignored(*, why: Text) -> None:
    """Says which datagram was not answered, and why."""


@message("jobs.kineto.doubt")
def doubt(*, what: Message) -> None:
    """A note on the traces for the user."""
