"""Messages of a network probe."""

from __future__ import annotations

from hermes.base.message import Count, Message, Name, Names, message, sentence

DO_HOSTS = sentence("fleet.do_hosts")
"""Advice on how to write a file of hosts."""

TOO_FEW_HOSTS = sentence("fleet.too_few_hosts")
"""Error: a file of hosts names fewer than two hosts."""

DO_PROBE_FIRST = sentence("fleet.do_probe_first")
"""Advice where there are no results: run the probe first."""

NO_RESULTS = sentence("fleet.no_results")
"""Error: no host has written results."""

DO_LINK = sentence("fleet.do_link")
"""Advice for a named link, host or switch."""

PAIRS = sentence("fleet.table_pairs")
"""The title of the table of pairs."""

CALLER = sentence("fleet.column_caller")
"""The title of the column with the calling host."""

ANSWERER = sentence("fleet.column_answerer")
"""The title of the column with the answering host."""

LOST = sentence("fleet.column_lost")
"""The title of the column with the lost share."""

RTT = sentence("fleet.column_rtt")
"""The title of the column with the round trip."""

JITTER = sentence("fleet.column_jitter")
"""The title of the column with the jitter."""


@message("fleet.hosts_unreadable")
def hosts_unreadable(*, why: Name) -> None:
    """Error: the file of hosts cannot be read."""


@message("fleet.no_host")
def no_host(*, line: Name) -> None:
    """Error: a line of the file of hosts names no host, or names one twice."""


@message("fleet.not_me")
def not_me(*, name: Name) -> None:
    """Error: this host is not in the file of hosts."""


@message("fleet.no_answering")
def no_answering(*, why: Name) -> None:
    """Error: the address of this host cannot be used."""


@message("fleet.absent")
def absent(*, hosts: Names, n: Count) -> None:
    """A note: hosts that have written no probe results."""


@message("fleet.called")
def called(*, host: Name, n: Count) -> None:
    """The verdict of one host's part: it called `n` hosts."""


@message("fleet.network_bad")
def network_bad(*, names: Names) -> None:
    """The verdict if a part of the network is named."""


@message("fleet.network_good")
def network_good(*, n: Count) -> None:
    """The verdict if no part is named, of `n` pairs."""


@message("fleet.named")
def named(*, kind: Message, name: Name, fault: Message, value: Name, bad: Count, pairs: Count) -> None:
    """A finding: the part of the network that the bad pairs have in common."""
