"""Finds TCP connections of a process whose other side no longer answers, by the kernel's counters: a link is cut.

proc(5): /proc/PID/net/tcp lists, for each connection in the process's network, both addresses, the queued bytes, a
timer and how often the timer has run out. Reading it for one's own processes needs no privilege.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LEAST_TRIES = 3
"""Fewest vain retransmissions: by then at least 1.4 s have passed (RFC 6298, with 0.2 s as Linux has it)."""
_LARGEST = 4 << 20
_MOST = 256
_ESTABLISHED, _CLOSING = "01", ("04", "09", "0B")
_RETRANSMITS = "01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A connection to another host, by both hosts' addresses. `tries`: how often its data was sent again in vain."""

    local: str
    remote: str
    tries: int


def connections(pid: int) -> list[Connection]:
    """All established connections that leave the host, each pair of addresses once; empty where the kernel lists
    none."""
    inodes = set(_inodes(pid))
    worst: dict[tuple[str, str], int] = {}
    for name in ("tcp", "tcp6") if inodes else ():
        for local, remote, tries, inode in _rows(Path(f"/proc/{pid}/net/{name}")):
            if inode in inodes and not ipaddress.ip_address(remote).is_loopback:
                worst[local, remote] = max(worst.get((local, remote), 0), tries)
    return [Connection(local=local, remote=remote, tries=tries)
            for (local, remote), tries in sorted(worst.items())[:_MOST]]  # fmt: skip


def _inodes(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            kind, _, inode = str(entry.readlink()).partition(":[")
            if kind == "socket":
                yield inode.rstrip("]")
    except OSError:
        return


def _rows(path: Path) -> Iterator[tuple[str, str, int, str]]:
    """Local and remote address, vain tries and inode of each connection in the file."""
    try:
        with path.open("rb") as file:
            lines = file.read(_LARGEST).decode("ascii", "replace").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        words = line.split()
        try:
            if words[3] == _ESTABLISHED or words[3] in _CLOSING:
                tries = int(words[6], 16) if words[5].partition(":")[0] == _RETRANSMITS else 0
                yield _address(words[1]), _address(words[2]), tries, words[9]
        except (IndexError, ValueError):
            continue


def _address(text: str) -> str:
    """An address such as `0100007F:1F90` as 127.0.0.1: words of four bytes in the order of the processor."""
    raw = bytes.fromhex(text.partition(":")[0])
    words = [int.from_bytes(raw[at : at + 4], "big") for at in range(0, len(raw), 4)]
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
