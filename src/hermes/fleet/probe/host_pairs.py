"""Plans the pairs of a probe: a number that grows linearly with hosts, and several pairs across every link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from hermes.base.errors import InputError
from hermes.fleet.probe import messages

PARTNERS = 4
"""Number of hosts that each host calls; as many call it. So eight pairs cross a host's link, and a plan has four pairs
a host."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
MOST_HOSTS = 100_000
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host: its name, its numeric address, and the switch that its link ends at; empty if unknown."""

    name: str
    address: str
    switch: str = ""


def lines_of(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """For each non-empty line of a file of hosts: its place, the line, and its words without a comment."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "replace")
    except OSError as refused:
        raise InputError(messages.hosts_unreadable(why=refused.strerror or ""), where=str(path)) from refused
    for number, line in enumerate(text.splitlines(), 1):
        if words := line.partition("#")[0].split():
            yield f"{path}, line {number}", line, words


def read_hosts(path: Path) -> list[Host]:
    """The hosts in lines of `NAME ADDRESS [SWITCH]`; `#` begins a comment. Raises `InputError` for any other line.

    Addresses are numbers, because a name may resolve to different addresses on different hosts.
    """
    found: dict[str, Host] = {}
    for where, line, words in lines_of(path):
        made = _host(words)
        if made is None or made.name in found or len(found) >= MOST_HOSTS:
            raise InputError(messages.no_host(line=line[:80]), where=where, hint=messages.DO_HOSTS)
        found[made.name] = made
    if len(found) < 2:
        raise InputError(messages.TOO_FEW_HOSTS, where=str(path), hint=messages.DO_HOSTS)
    return list(found.values())


def _host(words: Sequence[str]) -> Host | None:
    if not 2 <= len(words) <= 3 or not all(map(_NAME.fullmatch, (words[0], *words[2:]))):
        return None
    try:
        return Host(name=words[0], address=str(ip_address(words[1])), switch=words[2] if len(words) == 3 else "")
    except ValueError:
        return None


def pairs_of(hosts: Sequence[Host]) -> list[tuple[str, str]]:
    """Pairs of names: the caller and the answerer. The pairs are the same on every host.

    Hosts stand in a ring, switch by switch. Each host calls its next neighbour, usually behind the same switch. Each
    host also calls hosts at growing distances, mostly behind other switches. Each pair is called once.
    """
    ring = sorted(hosts, key=lambda host: (host.switch, host.name))
    count = len(ring)
    distances: list[int] = []
    for part in range(PARTNERS):
        # Distances grow: 1, then some hosts, then ever farther; no two are alike, and none meets itself from the other
        # side.
        wanted = max(1, round((count / 2.5) ** (part / max(PARTNERS - 1, 1))))
        while wanted in distances or count - wanted in distances:
            wanted += 1
        if wanted <= count // 2:
            distances.append(wanted)
    pairs = []
    for distance in distances:
        # At half of the ring, each pair would be called from both sides.
        callers = count // 2 if 2 * distance == count else count
        pairs += [(ring[place].name, ring[(place + distance) % count].name) for place in range(callers)]
    return pairs
