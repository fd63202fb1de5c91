"""Lists the captures of a job on the disk: how and when each was made, and its subject."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from hermes.inside.wire.rundir import Job
from hermes.jobs.capture_policy import StartedCapture, Trouble
from hermes.jobs.request_capture import DUMP, MANIFEST, RequestedCapture

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def automatic(job: Job) -> list[int]:
    """Start times of a job's automatic captures, in nanoseconds since 1970, from the names of their folders."""
    return [at_ns for at_ns, _ in _automatic(job)]


def _automatic(job: Job) -> list[tuple[int, Path]]:
    return [(at_ns, path) for at_ns, how, path in captures_on_disk(job) if how == "auto"]


def captures_on_disk(job: Job) -> list[tuple[int, str, Path]]:
    """The captures of a job: start time, origin (`auto`, `manual`, `refused`), and folder."""
    found = []
    with contextlib.suppress(OSError):
        for path in job.captures.iterdir():
            how, _, when = path.name.partition(f"_{DUMP}")
            with contextlib.suppress(ValueError):
                stamp = datetime.strptime(when, "%Y%m%d-%H%M%S-%f").replace(tzinfo=timezone.utc)
                found.append(((stamp - _EPOCH) // timedelta(microseconds=1) * 1000, how, path))
    return sorted(found)


def started(job: Job) -> list[StartedCapture]:
    """The automatic captures of a job and the trouble of each, from its manifest; unknown where the manifest has
    none."""
    found = []
    for at_ns, path in _automatic(job):
        about = Trouble()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads((path / MANIFEST).read_bytes())["about"]
            about = Trouble(cause=str(told["cause"]), more=float(told["more"]))
        found.append(StartedCapture(at_ns=at_ns, about=about))
    return found


def count_captures(job: Job) -> dict[str, int]:
    """Number of captures of a job on the disk, by origin: `auto`, `manual` or `refused`."""
    found = dict.fromkeys(("auto", "manual", "refused"), 0)
    with contextlib.suppress(OSError):
        for path in job.captures.iterdir():
            how = path.name.partition(f"_{DUMP}")[0]
            if how in found:
                found[how] += 1
    return found


def set_aside(asked: RequestedCapture) -> RequestedCapture:
    """Rename an automatic capture that no rank accepted, so `automatic` does not count it."""
    aside = asked.folder.with_name(asked.folder.name.replace("auto_", "refused_", 1))
    try:
        asked.folder.rename(aside)
    except OSError:
        return asked
    return replace(asked, folder=aside)
