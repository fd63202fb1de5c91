"""Numbers of the host, read from `/proc` and `/sys`: pressure, memory, network interfaces, TCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.base.units import whole
from hermes.fleet.exporter import families
from hermes.fleet.exporter.kernel import Rows, entries, number, text
from hermes.fleet.exporter.rdma import rdma
from hermes.model.metric import Family, Measured

_MOST_INTERFACES = 256
_TOTAL = re.compile(r"^(some|full) .*\btotal=(\d{1,18})$", re.MULTILINE)
_MEMORY = {
    "MemTotal": "total", "MemAvailable": "available", "MemFree": "free", "Cached": "cached", "Dirty": "dirty",
    "SwapTotal": "swap total", "SwapFree": "swap free",
}  # fmt: skip
"""Lines of `/proc/meminfo` (proc(5)), and what they are called here."""
_DIRECTIONS = {"receive": "rx", "transmit": "tx"}


def host(root: Path) -> list[Measured]:
    """All that the system below `root` tells of itself; what is not there is absent."""
    parts: tuple[Callable[[Path], Iterator[Measured]], ...] = (_pressure, _memory, _interfaces, _tcp, rdma)
    return [one for part in parts for one in part(root) if one.rows]


def _pressure(root: Path) -> Iterator[Measured]:
    """Time in which some, or all, tasks waited for a resource; the kernel counts microseconds (PSI)."""
    rows: Rows = [
        ((resource, share), int(total) / 1e6)
        for resource in ("cpu", "memory", "io", "irq")
        for share, total in _TOTAL.findall(text(root / "proc/pressure" / resource))
    ]
    yield Measured(family=families.PRESSURE, rows=rows)


def _memory(root: Path) -> Iterator[Measured]:
    rows: Rows = []
    for line in text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        kilobytes = whole(value.strip().removesuffix(" kB"))
        if name in _MEMORY and kilobytes is not None:
            rows.append(((_MEMORY[name],), kilobytes * 1024.0))
    yield Measured(family=families.MEMORY, rows=rows)
    kills = re.search(r"^oom_kill (\d{1,18})$", text(root / "proc/vmstat"), re.MULTILINE)
    yield Measured(family=families.OOM_KILLS, rows=[((), float(kills[1]))] if kills else [])


def _interfaces(root: Path) -> Iterator[Measured]:
    """Each interface but loopback; a link that flaps counts changes of its carrier."""
    found: dict[Family, Rows] = {}

    def add(family: Family, labels: tuple[str, ...], value: float | None) -> None:
        if value is not None:
            found.setdefault(family, []).append((labels, float(value)))

    for folder in entries(root / "sys/class/net", _MOST_INTERFACES):
        name = folder.name
        if name == "lo" or not folder.is_dir():
            continue
        for direction, short in _DIRECTIONS.items():
            labels = (name, direction)
            counts = {one: number(folder / "statistics" / f"{short}_{one}")
                      for one in ("bytes", "packets", "errors", "dropped")}  # fmt: skip
            add(families.NETWORK_BYTES, labels, counts["bytes"])
            add(families.NETWORK_PACKETS, labels, counts["packets"])
            add(families.NETWORK_ERRORS, labels, counts["errors"])
            add(families.NETWORK_DROPS, labels, counts["dropped"])
        add(families.CARRIER_CHANGES, (name,), number(folder / "carrier_changes"))
        state = text(folder / "operstate").strip()
        add(families.NETWORK_UP, (name,), float(state == "up") if state in ("up", "down", "dormant") else None)
        speed = number(folder / "speed")
        # Megabits a second; an interface without a wire says -1, or nothing.
        add(families.NETWORK_SPEED, (name,), speed * 125_000.0 if speed else None)
    yield from (Measured(family=family, rows=rows) for family, rows in found.items())


def _tcp(root: Path) -> Iterator[Measured]:
    lines = [line.split() for line in text(root / "proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    told = dict(zip(*lines[:2], strict=False)) if len(lines) >= 2 else {}
    for family, name in ((families.SENT_SEGMENTS, "OutSegs"), (families.RETRANSMITTED, "RetransSegs")):
        count = whole(told.get(name, ""))
        yield Measured(family=family, rows=[] if count is None else [((), float(count))])
