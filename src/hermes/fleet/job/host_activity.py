"""Use case: report what runs on this host now: processes beside the job, pressure, errors, devices.

The values are read over some seconds from `/proc`, `/sys` and the vendors' tools, as far as the account may read them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.processes import descendants
from hermes.fleet.exporter import metric_families
from hermes.fleet.exporter.devices import devices, run
from hermes.fleet.exporter.host_metrics import host
from hermes.fleet.exporter.linux_kernel_files import text
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.inside.wire.step_record import AT, NULL

SCHEMA = "hermes.host/1"
LEAST_CORES = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST, _LONGEST = 8, 200
_LATEST, _WINDOW = 400, 20
_RISEN = 0.02
"""Share of a step by which a rank must wait more for cores than before, for the wait to count as risen."""
_COUNTED = {
    metric_families.NETWORK_ERRORS: "network errors", metric_families.NETWORK_DROPS: "dropped packets",
    metric_families.CARRIER_CHANGES: "link flaps", metric_families.RETRANSMITTED: "retransmits",
    metric_families.OOM_KILLS: "out of memory",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process: its core time so far (ticks), and its start time (ticks since boot)."""

    pid: int
    taken: int
    started: int


def json_text(job: Job, seconds: float) -> str:
    """The host's state as one line of JSON, from two looks that are `seconds` apart."""
    before, told = _processes(), _totals()
    begin = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    after, now = _processes(), _totals()
    document = {
        "schema": SCHEMA, "job": job.id, "cores": os.cpu_count(),
        "processes": _beside(job, before, after, took),
        "pressure": {name: round(min((now[kind, name] - told.get((kind, name), 0.0)) / took, 1.0), 4)
                     for kind, name in now if kind == "pressure"},
        "errors": {name: round(count - told.get((kind, name), count)) for (kind, name), count in now.items()
                   if kind == "errors"},
        "devices": [
            {"device": f"{one.maker} {one.index}", "hertz": one.hertz, "celsius": one.celsius, "watts": one.watts,
             "healthy": one.healthy, "errors": sum(one.ecc.values()) + sum(one.links.values())}
            for one in devices(run, details=True)
        ],
        "ranks": list(_ranks(job)),
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":"))


def _processes() -> dict[int, Process]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            # proc(5): fields 14 and 15 are times of user and system, 22 is the start; 3 is the first behind the name.
            words = text(folder / "stat").rpartition(")")[2].split()
            with contextlib.suppress(IndexError, ValueError):
                pid = int(folder.name)
                found[pid] = Process(pid=pid, taken=int(words[11]) + int(words[12]), started=int(words[19]))
    return found


def _beside(
    job: Job, before: Mapping[int, Process], after: Mapping[int, Process], took: float
) -> list[dict[str, object]]:
    """Processes that use cores and belong neither to the job nor to the asking command, the largest users first."""
    own = {pid for root in (job.owner[0], *(pid for _, pid, _ in rings(job))) for pid in (root, *descendants(root))}
    own |= set(_asking())
    took_cores = [
        ((one.taken - before[pid].taken) / _TICKS / took, one) for pid, one in after.items()
        if pid not in own and pid in before and before[pid].started == one.started
    ]  # fmt: skip
    greedy = sorted((pair for pair in took_cores if pair[0] >= LEAST_CORES), key=lambda pair: -pair[0])[:_MOST]
    booted = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return [
        {"pid": one.pid, "command": _command(one.pid), "owner": _owner(one.pid), "cores": round(cores, 2),
         "age_ns": max(time.time_ns() - booted - one.started * 10**9 // _TICKS, 0)}
        for cores, one in greedy
    ]  # fmt: skip


def _asking() -> Iterator[int]:
    """The numbers of this process and all its parents."""
    pid = os.getpid()
    while pid > 1:
        yield pid
        words = text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
        pid = int(words[1]) if len(words) > 1 else 0


def _command(pid: int) -> str:
    words = [word for word in text(Path(f"/proc/{pid}/cmdline")).split("\0") if word]
    return (shlex.join(words) or text(Path(f"/proc/{pid}/comm")).strip())[:_LONGEST]


def _owner(pid: int) -> str:
    try:
        number = Path(f"/proc/{pid}").stat().st_uid
        return pwd.getpwuid(number).pw_name
    except (OSError, KeyError):
        return ""


def _totals() -> dict[tuple[str, str], float]:
    """Counters of the host: seconds in which some task waited, by resource, and errors."""
    found: dict[tuple[str, str], float] = {}
    for one in host(Path("/")):
        for labels, value in one.rows:
            if one.family is metric_families.PRESSURE and labels[1] == "some":
                found["pressure", labels[0]] = value
            elif one.family in _COUNTED:
                key = ("errors", _COUNTED[one.family])
                found[key] = found.get(key, 0.0) + value
    return found


def _ranks(job: Job) -> Iterator[dict[str, object]]:
    """The time in a step that each rank waited for a core, and since when it has waited that long."""
    for rank, _, path in rings(job)[:256]:
        with contextlib.suppress(LiveError, OSError):
            reader = RingReader(path)
            try:
                rows = reader.new()[-_LATEST:]
            finally:
                reader.close()
            yield {"rank": rank, **waited(rows, time.time_ns())}


def waited(rows: Sequence[tuple[int, ...]], now_ns: int) -> dict[str, int | None]:
    """`delay_ns`: time in a step that the stepping thread of the latest steps waited for a core; None if not measured.
    `risen_ns`: how long ago this time rose; None if it did not rise, or rose before the first of these steps."""
    parts = [rows[at : at + _WINDOW] for at in range(len(rows) % _WINDOW, len(rows), _WINDOW)]
    shares = [found for part in parts if (found := _share(part)) is not None]
    if not shares or len(shares) != len(parts):
        return {"delay_ns": None, "risen_ns": None}
    last = parts[-1]
    middle = (min(shares) + shares[-1]) / 2
    risen = None
    if shares[-1] - min(shares) >= _RISEN:
        low = max(at for at, share in enumerate(shares) if share <= middle)
        risen = max(now_ns - parts[low + 1][0][AT["end_ns"]], 0)
    wall = sum(row[AT["wall_ns"]] for row in last)
    return {"delay_ns": round(shares[-1] * wall / len(last)), "risen_ns": risen}


def _share(rows: Sequence[tuple[int, ...]]) -> float | None:
    """Waiting time by step time, over rows; a record holds the waiting time since the last record with a value."""
    told = [row[AT["delay_ns"]] for row in rows if row[AT["delay_ns"]] != NULL]
    wall = sum(row[AT["wall_ns"]] for row in rows)
    return sum(told) / wall if told and wall else None
