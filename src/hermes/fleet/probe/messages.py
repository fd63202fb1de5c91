"""What a probe of the network says."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, message, sentence

DO_HOSTS = sentence("fleet.do_hosts")
"""How a file of hosts is written."""

TOO_FEW_HOSTS = sentence("fleet.too_few_hosts")
"""A file of hosts with fewer than two."""

DO_PROBE_FIRST = sentence("fleet.do_probe_first")
"""What to do where there are no results."""

NO_RESULTS = sentence("fleet.no_results")
"""No host has written results."""

DO_LINK = sentence("fleet.do_link")
"""What to do about what is named."""

PAIRS = sentence("fleet.table_pairs")
"""The title of the table of pairs."""

CALLER = sentence("fleet.column_caller")
"""The title of a column."""

ANSWERER = sentence("fleet.column_answerer")
"""The title of a column."""

LOST = sentence("fleet.column_lost")
"""The title of a column."""

RTT = sentence("fleet.column_rtt")
"""The title of a column."""

JITTER = sentence("fleet.column_jitter")
"""The title of a column."""


@message("fleet.hosts_unreadable")
def hosts_unreadable(*, why: Name) -> None:
    """The file of hosts cannot be read."""


@message("fleet.no_host")
def no_host(*, line: Name) -> None:
    """A line of the file of hosts that names none, or one twice."""


@message("fleet.not_me")
def not_me(*, name: Name) -> None:
    """This host is not in the file of hosts."""


@message("fleet.no_answering")
def no_answering(*, why: Name) -> None:
    """The address of this host cannot be used."""


@message("fleet.absent")
def absent(*, hosts: Names, n: Count) -> None:
    """Hosts of which there are no results."""


@message("fleet.called")
def called(*, host: Name, n: Count) -> None:
    """The answer of one host's part: it called so many."""


@message("fleet.network_bad")
def network_bad(*, names: Names) -> None:
    """The answer where something is named."""


@message("fleet.network_good")
def network_good(*, n: Count) -> None:
    """The answer where nothing is named, of so many pairs."""


@message("fleet.named")
def named(*, kind: Message, name: Name, fault: Message, value: Name, bad: Count, pairs: Count) -> None:
    """What the bad pairs have in common."""
