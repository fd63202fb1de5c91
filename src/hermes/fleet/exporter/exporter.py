"""Collects what the exporter serves: jobs, host and devices, each on its own schedule, with a limit on rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.message import Text
from hermes.base.sanitize_text import shell_command
from hermes.fleet.exporter import devices, metric_families
from hermes.fleet.exporter.device import Device
from hermes.fleet.exporter.host_metrics import host
from hermes.jobs.api import JobView, Overview, metrics
from hermes.model.metric import MetricSample, collected
from hermes.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOOK_S = 8.0
"""Seconds between two looks at the jobs: a ring holds the steps of ten seconds if a step takes 10 ms."""
DEVICES_S = 30.0
"""Seconds between two calls of a vendor's tool: one call takes about a tenth of a second of a core."""
_DETAILS_EVERY = 10
_FRESH_S = 1.0
"""Seconds for which measured values are served again: frequent scrapes cost no more."""
_KEPT = 400
_MOST_RANKS = 128
_MOST_JOBS = 64
MOST_ROWS = 50_000
"""Most rows in one answer: enough for 128 ranks with 64 kinds of collectives, and all else. Further rows are left out
and counted."""


class Exporter:
    """The exporter of one host. `look` and `look_at_devices` run on a timer, `measured` at every scrape."""

    def __init__(
        self, environment: Mapping[str, str], *, root: Path, users: Sequence[str], peak_flops: float | None,
        commands: bool, say: Callable[[Text], None], tool: devices.Run = devices.run,
    ) -> None:  # fmt: skip
        """`root` is the folder that contains `/proc` and `/sys`; `commands` also exports the command lines of jobs.

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
        self._fresh: tuple[float, list[MetricSample]] = (-_FRESH_S, [])

    def look(self) -> None:
        """Look for jobs on this host, and read their latest steps."""
        self._jobs = self._overview.look()
        self._sources["jobs"] = True

    def look_at_devices(self) -> None:
        """Run the vendors' tools. Error counters are read less often, and keep their values until the next reading."""
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

    def measured(self) -> list[MetricSample]:
        """All samples known now, by metric family."""
        with self._lock:
            now = time.monotonic()
            if now - self._fresh[0] >= _FRESH_S:
                self._fresh = now, self._measure()
            return self._fresh[1]

    def _measure(self) -> list[MetricSample]:
        kept, left_out = bounded(self._all(), MOST_ROWS)
        sources = [((name,), float(up)) for name, up in sorted(self._sources.items())]
        return [
            *kept,
            MetricSample(family=metric_families.SOURCE_UP, rows=sources),
            MetricSample(family=metric_families.LEFT_OUT, rows=[((), float(left_out))]),
            MetricSample(family=metric_families.EXPORTER, rows=[((__version__,), 1.0)]),
        ]

    def _all(self) -> Iterator[MetricSample]:
        of_host = host(self._root)
        self._sources["host"] = bool(of_host)
        yield from of_host
        yield from devices.measured(self._devices)
        jobs = self._jobs
        yield from metrics.measured(jobs)
        if self._commands:
            rows = [((job.id, shell_command(*job.command)), 1.0) for job in jobs if job.command]
            yield MetricSample(family=metric_families.JOB_COMMAND, rows=rows)

    def collect(self) -> Iterator[Metric]:
        """All samples known now, in the form of prometheus_client's collector interface."""
        return collected(self.measured())

    def close(self) -> None:
        """Close the step logs of the jobs."""
        self._overview.close()


def bounded(measured: Iterable[MetricSample], most: int) -> tuple[list[MetricSample], int]:
    """The first `most` rows, and how many were left out."""
    kept: list[MetricSample] = []
    room, left_out = most, 0
    for one in measured:
        rows = one.rows[:room]
        left_out += len(one.rows) - len(rows)
        room -= len(rows)
        if rows:
            kept.append(replace(one, rows=rows))
    return kept, left_out
