"""Runs the analyses of a job's captures beside the job, and reports their results to the watcher."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hermes.base.message import Message
from hermes.inside.wire.rundir import Job
from hermes.jobs.analyze_capture import LONGEST_S, analysis, outcome, stop
from hermes.jobs.detect.job_alarms import Notice
from hermes.jobs.events import event, note


@dataclass(frozen=True, slots=True, kw_only=True)
class _Analysis:
    """An analysis under way, and the notice that its capture was made for."""

    child: subprocess.Popen[bytes]
    out: Path
    began: float
    about: Notice | None


class Analyses:
    """The analyses of one job's captures. `found` gets the result of each analysis and the path of its report."""

    def __init__(self, job: Job, found: Callable[[Message, Path], object]) -> None:
        self._job, self._found = job, found
        self._under_way: list[_Analysis] = []

    def begin(self, folder: Path, about: Notice | None) -> None:
        """Analyse a capture beside the job; if the analysis cannot be started, nothing is reported."""
        with contextlib.suppress(OSError):
            child, out = _begin(self._job, folder)
            self._under_way.append(_Analysis(child=child, out=out, began=time.monotonic(), about=about))

    def collect(self) -> None:
        """Report the results of analyses that have ended, and stop analyses that take too long."""
        for one in list(self._under_way):
            if one.child.poll() is not None:
                self._end(one)
            elif time.monotonic() - one.began >= LONGEST_S:
                self._stop(one)

    def close(self, end: float) -> None:
        """Wait for the analyses until `end` (seconds of the monotonic clock), then stop the analyses that still run."""
        while self._under_way and time.monotonic() < end:
            time.sleep(0.1)
            self.collect()
        for one in list(self._under_way):
            self._stop(one)

    def _stop(self, one: _Analysis) -> None:
        stop(one.child)
        self._end(one, stopped=True)

    def _end(self, one: _Analysis, *, stopped: bool = False) -> None:
        self._under_way.remove(one)
        self._found(outcome(one.child, one.out, one.about, stopped=stopped), one.out)


def analysed(job: Job, folder: Path) -> None:
    """Analyse a capture, wait for the result, and note it as an event of the job. Raises `OSError`."""
    child, out = _begin(job, folder)
    stopped = False
    try:
        child.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        stop(child)
        stopped = True
    note(job, event("finding", outcome(child, out, stopped=stopped), report=str(out / "report.html")))


def _begin(job: Job, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    out = job.folder / "reports" / folder.name
    return analysis(folder, out), out
