"""Reads host metrics from `/proc` and `/sys`: pressure, memory, network interfaces, TCP."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes.base.units import whole_number
from hermes.fleet.exporter import metric_families
from hermes.fleet.exporter.linux_kernel_files import Rows, entries, number, text
from hermes.fleet.exporter.rdma import rdma
from hermes.model.metric import MetricFamily, MetricSample

_MOST_INTERFACES = 256
_TOTAL = re.compile(r"^(some|full) .*\btotal=(\d{1,18})$", re.MULTILINE)
_MEMORY = {
    "MemTotal": "total", "MemAvailable": "available", "MemFree": "free", "Cached": "cached", "Dirty": "dirty",
    "SwapTotal": "swap total", "SwapFree": "swap free",
}  # fmt: skip
"""Lines of `/proc/meminfo` (proc(5)), and the names of their metrics."""
_DIRECTIONS = {"receive": "rx", "transmit": "tx"}


def host(root: Path) -> list[MetricSample]:
    """All host metrics that `/proc` and `/sys` below `root` give; a metric without its file is absent."""
    parts: tuple[Callable[[Path], Iterator[MetricSample]], ...] = (_pressure, _memory, _interfaces, _tcp, rdma)
    return [one for part in parts for one in part(root) if one.rows]


def _pressure(root: Path) -> Iterator[MetricSample]:
    """Time in which some, or all, tasks waited for a resource; the kernel counts microseconds (PSI)."""
    rows: Rows = [
        ((resource, share), int(total) / 1e6)
        for resource in ("cpu", "memory", "io", "irq")
        for share, total in _TOTAL.findall(text(root / "proc/pressure" / resource))
    ]
    yield MetricSample(family=metric_families.PRESSURE, rows=rows)


def _memory(root: Path) -> Iterator[MetricSample]:
    rows: Rows = []
    for line in text(root / "proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        kilobytes = whole_number(value.strip().removesuffix(" kB"))
        if name in _MEMORY and kilobytes is not None:
            rows.append(((_MEMORY[name],), kilobytes * 1024.0))
    yield MetricSample(family=metric_families.MEMORY, rows=rows)
    kills = re.search(r"^oom_kill (\d{1,18})$", text(root / "proc/vmstat"), re.MULTILINE)
    yield MetricSample(family=metric_families.OOM_KILLS, rows=[((), float(kills[1]))] if kills else [])


def _interfaces(root: Path) -> Iterator[MetricSample]:
    """Metrics of each network interface but loopback; for a link that flaps the carrier's changes are counted."""
    found: dict[MetricFamily, Rows] = {}

    def add(family: MetricFamily, labels: tuple[str, ...], value: float | None) -> None:
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
            add(metric_families.NETWORK_BYTES, labels, counts["bytes"])
            add(metric_families.NETWORK_PACKETS, labels, counts["packets"])
            add(metric_families.NETWORK_ERRORS, labels, counts["errors"])
            add(metric_families.NETWORK_DROPS, labels, counts["dropped"])
        add(metric_families.CARRIER_CHANGES, (name,), number(folder / "carrier_changes"))
        state = text(folder / "operstate").strip()
        add(metric_families.NETWORK_UP, (name,), float(state == "up") if state in ("up", "down", "dormant") else None)
        speed = number(folder / "speed")
        # Speed in megabits a second; an interface without a wire reports -1, or nothing.
        add(metric_families.NETWORK_SPEED, (name,), speed * 125_000.0 if speed else None)
    yield from (MetricSample(family=family, rows=rows) for family, rows in found.items())


def _tcp(root: Path) -> Iterator[MetricSample]:
    lines = [line.split() for line in text(root / "proc/net/snmp").splitlines() if line.startswith("Tcp:")]
    told = dict(zip(*lines[:2], strict=False)) if len(lines) >= 2 else {}
    for family, name in ((metric_families.SENT_SEGMENTS, "OutSegs"), (metric_families.RETRANSMITTED, "RetransSegs")):
        count = whole_number(told.get(name, ""))
        yield MetricSample(family=family, rows=[] if count is None else [((), float(count))])
