"""Reads the file of hosts for SSH: names, and addresses where names do not resolve."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from hermes.base.errors import InputError
from hermes.fleet.hosts import messages
from hermes.fleet.probe.host_pairs import MOST_HOSTS, lines_of

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
"""The pattern of names for a host, a node or a pod; such a name is never an option of a program."""


def read_hosts(path: Path) -> dict[str, str]:
    """Addresses by name, from lines of `NAME [ADDRESS [SWITCH]]`; `#` begins a comment. The default address is the
    name.

    A file of `hermes fleet probe` has the same form. User, port and key of a host come from the configuration of SSH,
    never from this file. Raises `InputError` for any other line, and for a file without hosts.
    """
    found: dict[str, str] = {}
    for where, line, words in lines_of(path):
        if not _sound(words) or words[0] in found or len(found) >= MOST_HOSTS:
            raise InputError(messages.not_a_host(line=line[:80]), where=where, hint=messages.DO_WRITE_HOSTS)
        found[words[0]] = words[1] if len(words) > 1 else words[0]
    if not found:
        raise InputError(messages.NO_HOSTS, where=str(path), hint=messages.DO_WRITE_HOSTS)
    return found


def _sound(words: Sequence[str]) -> bool:
    return len(words) <= 3 and all(NAME.fullmatch(one) for one in (words[0], *words[2:])) and (
        len(words) == 1 or _address(words[1])
    )  # fmt: skip


def _address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return NAME.fullmatch(text) is not None
    # A zone such as %eth0 would be free text.
    return "%" not in text
