"""Who speaks to whom: a cost that grows linearly with hosts, and several pairs across every link and switch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from hermes.base.errors import InputError
from hermes.fleet.probe import messages

PARTNERS = 4
"""That each host calls; as many call it. So eight pairs cross its link, and a plan has four times as many as hosts."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_MOST_HOSTS = 100_000
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host by its name, the number of its address, and the switch that its link ends at; empty where not known."""

    name: str
    address: str
    switch: str = ""


def read_hosts(path: Path) -> list[Host]:
    """Lines of `NAME ADDRESS [SWITCH]`; `#` begins a comment. Raises `InputError` for anything else.

    Addresses are numbers: what a name resolves to may differ from host to host.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "replace")
    except OSError as refused:
        raise InputError(messages.hosts_unreadable(why=refused.strerror or ""), where=str(path)) from refused
    found: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        made = _host(words)
        if made is None or made.name in found or len(found) >= _MOST_HOSTS:
            where = f"{path}, line {number}"
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
    """Pairs of names: who calls, and who answers. The same on every host.

    Hosts stand in a ring, switch by switch. Each calls its next neighbour, which is most often behind the same switch,
    and hosts at growing distances, most of which are behind other switches. Each pair is called once.
    """
    ring = sorted(hosts, key=lambda host: (host.switch, host.name))
    count = len(ring)
    distances: list[int] = []
    for part in range(PARTNERS):
        # 1, then some hosts on, then ever farther: no two alike, and none that meets itself from the other side.
        wanted = max(1, round((count / 2.5) ** (part / max(PARTNERS - 1, 1))))
        while wanted in distances or count - wanted in distances:
            wanted += 1
        if wanted <= count // 2:
            distances.append(wanted)
    pairs = []
    for distance in distances:
        # At half of the ring each pair would be called from both sides.
        callers = count // 2 if 2 * distance == count else count
        pairs += [(ring[place].name, ring[(place + distance) % count].name) for place in range(callers)]
    return pairs
