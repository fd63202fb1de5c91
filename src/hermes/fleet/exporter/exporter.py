"""What is served: jobs, host and devices, each looked at in its own time, and bounded whatever they say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.foreign_text import shell_command
from hermes.base.message import Text
from hermes.fleet.exporter import devices, families
from hermes.fleet.exporter.device import Device
from hermes.fleet.exporter.host import host
from hermes.jobs.api import JobView, Overview, metrics
from hermes.model.metric import Measured, collected
from hermes.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOOK_S = 8.0
"""Between two looks at the jobs: a ring holds the steps of ten seconds where one takes 10 ms."""
DEVICES_S = 30.0
"""Between two calls of a tool, each of which costs some tenth of a second of a core."""
_DETAILS_EVERY = 10
_FRESH_S = 1.0
"""So long what was measured is handed out again: whoever asks often costs no more."""
_KEPT = 400
_MOST_RANKS = 128
_MOST_JOBS = 64
MOST_ROWS = 50_000
"""In one answer: 128 ranks with 64 kinds of collectives, and all else. What is beyond is left out and counted."""


class Exporter:
    """Looks at one host. `look` and `look_at_devices` are called now and then, `measured` whenever somebody asks."""

    def __init__(
        self, environment: Mapping[str, str], *, root: Path, users: Sequence[str], peak_flops: float | None,
        commands: bool, say: Callable[[Text], None], tool: devices.Run = devices.run,
    ) -> None:  # fmt: skip
        """`root` is where `/proc` and `/sys` lie; `commands` tells command lines of jobs, too.

        Raises `HermesError` for `users` that this account may not look at.
        """
        self._overview = Overview(
            environment, name="", preset="robust", capture=False, acts=False, peak_flops=peak_flops, say=say,
            users=users, kept=_KEPT, most_ranks=_MOST_RANKS, most_jobs=_MOST_JOBS,
        )  # fmt: skip
        self._root, self._commands, self._tool = root, commands, tool
        self._jobs: tuple[JobView, ...] = ()
        self._devices: list[Device] = []
        self._round = 0
        self._sources: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._fresh: tuple[float, list[Measured]] = (-_FRESH_S, [])

    def look(self) -> None:
        """Look at the jobs."""
        self._jobs = self._overview.look()
        self._sources["jobs"] = True

    def look_at_devices(self) -> None:
        """Ask the tools. Counters of errors are asked for now and then, and stay until then."""
        details = self._round % _DETAILS_EVERY == 0
        self._round += 1
        before = {(one.maker, one.index): one for one in self._devices}
        found = devices.devices(self._tool, details=details)
        for one in found if not details else ():
            known = before.get((one.maker, one.index))
            if known is not None:
                one.ecc, one.links = one.ecc or known.ecc, one.links or known.links
                one.hertz = one.hertz or known.hertz
        if found or self._devices:
            self._sources["devices"] = bool(found)
        self._devices = found

    def measured(self) -> list[Measured]:
        """All that is known now."""
        with self._lock:
            now = time.monotonic()
            if now - self._fresh[0] >= _FRESH_S:
                self._fresh = now, self._measure()
            return self._fresh[1]

    def _measure(self) -> list[Measured]:
        kept, left_out = bounded(self._all(), MOST_ROWS)
        sources = [((name,), float(up)) for name, up in sorted(self._sources.items())]
        return [
            *kept,
            Measured(family=families.SOURCE_UP, rows=sources),
            Measured(family=families.LEFT_OUT, rows=[((), float(left_out))]),
            Measured(family=families.EXPORTER, rows=[((__version__,), 1.0)]),
        ]

    def _all(self) -> Iterator[Measured]:
        of_host = host(self._root)
        self._sources["host"] = bool(of_host)
        yield from of_host
        yield from devices.measured(self._devices)
        jobs = self._jobs
        yield from metrics.measured(jobs)
        if self._commands:
            rows = [((job.id, shell_command(*job.command)), 1.0) for job in jobs if job.command]
            yield Measured(family=families.JOB_COMMAND, rows=rows)

    def collect(self) -> Iterator[Metric]:
        """As a collector of prometheus_client."""
        return collected(self.measured())

    def close(self) -> None:
        """Let go of the jobs."""
        self._overview.close()


def bounded(measured: Iterable[Measured], most: int) -> tuple[list[Measured], int]:
    """The first so many rows, and how many were left out."""
    kept: list[Measured] = []
    room, left_out = most, 0
    for one in measured:
        rows = one.rows[:room]
        left_out += len(one.rows) - len(rows)
        room -= len(rows)
        if rows:
            kept.append(replace(one, rows=rows))
    return kept, left_out
