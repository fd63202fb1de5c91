"""What the stand-in for Kineto's daemon says: of its socket, of processes that ask, and of traces."""

from __future__ import annotations

from hermes.base.message import Bytes, Count, Message, Messages, Name, Names, Ns, Rank, Ranks, Text, message, sentence

# The socket ----------------------------------------------------------------------------------------------------------


@message("jobs.kineto.short")
def short(*, size: Bytes) -> None:
    """A datagram too short to be a message."""


@message("jobs.kineto.long")
def long(*, most: Bytes) -> None:
    """A datagram longer than any message."""


@message("jobs.kineto.other_size")
def other_size(*, claimed: Bytes, size: Bytes) -> None:
    """A message whose head is wrong about its size."""


@message("jobs.kineto.unknown")
def unknown(*, kind: Name, size: Bytes) -> None:
    """A message of a kind that is not known."""


@message("jobs.kineto.other_user")
def other_user(*, user: Name) -> None:
    """A datagram of another user."""


OTHER_SOCKET = sentence("jobs.kineto.other_socket")
"""A datagram from a socket that is not libkineto's."""


@message("jobs.kineto.name_taken")
def name_taken(*, name: Name, why: Name) -> None:
    """Another daemon has the abstract name."""


@message("jobs.kineto.socket_taken")
def socket_taken(*, path: Name) -> None:
    """Another daemon has the socket."""


@message("jobs.kineto.folder_taken")
def folder_taken(*, folder: Name) -> None:
    """Another daemon has the folder."""


@message("jobs.kineto.cannot_look")
def cannot_look(*, folder: Name, why: Name) -> None:
    """A folder cannot be looked at."""


@message("jobs.kineto.no_folder")
def no_folder(*, folder: Name) -> None:
    """A path that is no folder."""


@message("jobs.kineto.open_folder")
def open_folder(*, folder: Name) -> None:
    """A folder that others can write."""


@message("jobs.kineto.long_name")
def long_name(*, folder: Name, most: Bytes) -> None:
    """The name of a folder is longer than libkineto has room for."""


STOP_THE_OTHER = sentence("jobs.kineto.stop_the_other")
"""What to do where another daemon is there."""

# Processes that ask ---------------------------------------------------------------------------------------------------


@message("jobs.kineto.torch_unknown")
def torch_unknown(*, pid: Name, known: Names) -> None:
    """The version of torch that a process has loaded cannot be read."""


@message("jobs.kineto.torch_other")
def torch_other(*, pid: Name, torch: Name, known: Names) -> None:
    """A version of torch whose protocol nobody has tried."""


START_OTHERWISE = sentence("jobs.kineto.start_otherwise")
"""What to do then."""


@message("jobs.kineto.not_asking")
def not_asking(*, name: Name) -> None:
    """No process that asks has that name."""


@message("jobs.kineto.not_one")
def not_one(*, name: Name) -> None:
    """Several jobs have that name."""


SEVERAL = sentence("jobs.kineto.several")
"""Several jobs ask, and none was named."""


@message("jobs.kineto.name_one")
def name_one(*, processes: Names) -> None:
    """Which can be named."""


@message("jobs.kineto.rank_not_asking")
def rank_not_asking(*, rank: Rank) -> None:
    """A rank that asks for nothing here."""


@message("jobs.kineto.ranks_asking")
def ranks_asking(*, ranks: Ranks) -> None:
    """Which ranks ask."""


NOBODY_ASKS = sentence("jobs.kineto.nobody_asks")
"""No process asks for anything."""


@message("jobs.kineto.start_with")
def start_with(*, ignored: Messages | None = None) -> None:
    """How to start a job that asks, and what was ignored so far."""


@message("jobs.kineto.cannot_write_to")
def cannot_write_to(*, path: Name) -> None:
    """A path that libkineto would misread."""


PLAIN_PATH = sentence("jobs.kineto.plain_path")
"""Which paths it reads."""

# A capture ------------------------------------------------------------------------------------------------------------


ASKED_NO_MORE = sentence("jobs.kineto.asked_no_more")
"""A rank did not ask again, so it was handed nothing."""


@message("jobs.kineto.nothing_written")
def nothing_written(*, n: Count) -> None:
    """A rank wrote nothing for so many minutes."""


NO_TRACE = sentence("jobs.kineto.no_trace")
"""A rank recorded, and wrote no trace."""


@message("jobs.kineto.too_large")
def too_large(*, size: Bytes, most: Bytes) -> None:
    """A trace is larger than was allowed."""


@message("jobs.kineto.unreadable")
def unreadable(*, why: Name) -> None:
    """A trace is not laid out as it should be."""


@message("jobs.kineto.steps")
def steps(*, n: Count, file: Name) -> None:
    """A trace with so many steps."""


@message("jobs.kineto.no_steps")
def no_steps(*, file: Name) -> None:
    """A trace without steps."""


NO_OPTIMIZER_STEP = sentence("jobs.kineto.no_optimizer_step")
"""What to know of a trace without steps."""


@message("jobs.kineto.apart")
def apart(*, apart: Ns, step: Ns) -> None:
    """Ranks did not record the same steps."""


@message("jobs.kineto.listening")
def listening(*, n: Count) -> None:
    """The daemon waits for processes, which ask every so many seconds."""


@message("jobs.kineto.asks")
def asks(*, rank: Rank, pid: Name, torch: Name, command: Name) -> None:
    """A process that will be recorded."""


AGAIN = sentence("jobs.kineto.again")
"""Ranks began apart, and are asked once more."""


@message("jobs.kineto.cannot_take_back")
def cannot_take_back(*, folder: Name) -> None:
    """The user interrupts after configurations went out."""


@message("jobs.kineto.ignored")
def ignored(*, why: Text) -> None:
    """A datagram that was not answered."""


@message("jobs.kineto.doubt")
def doubt(*, what: Message) -> None:
    """What to know of the traces."""
