"""Removes run directories of ended jobs, with their captures: by age, and the oldest first by size."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.base.errors import InputError
from hermes.inside.wire.rundir import Job, default_root, jobs, running
from hermes.jobs.capture_messages import NUMBER_SUCH_AS
from hermes.jobs.detect.messages import no_value

DAYS, GIGABYTES = "HERMES_KEEP_DAYS", "HERMES_KEEP_GB"
_DEFAULTS = {DAYS: 30.0, GIGABYTES: 20.0}
_YOUNG_NS = 3_600 * 10**9
_NUMBER = re.compile(r"\d{1,6}(\.\d{1,3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLimits:
    """Limits on the run directories of ended jobs: age (ns) and size (bytes)."""

    age_ns: int
    size_bytes: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> KeepLimits:
        """The limits from HERMES_KEEP_DAYS (30) and HERMES_KEEP_GB (20). Raises `InputError` for a text that is no
        number."""
        values = {}
        for name, default in _DEFAULTS.items():
            text = environment.get(name, "").strip()
            if text and not _NUMBER.fullmatch(text):
                raise InputError(no_value(value=text[:40], name=name), hint=NUMBER_SUCH_AS)
            values[name] = float(text) if text else default
        return cls(age_ns=int(values[DAYS] * 86_400e9), size_bytes=int(values[GIGABYTES] * 1e9))


def prune(environment: Mapping[str, str], now_ns: int) -> list[str]:
    """Remove run directories that are too old or too large; returns the ids of their jobs.

    A job that runs, whose starter lives or that was changed in the last hour stays, whatever its size.
    """
    keep = KeepLimits.of(environment)
    ended = [(_touched(job.folder), job) for job in jobs(default_root(environment))]
    removed, kept = [], 0
    for touched, job in sorted(ended, key=lambda one: -one[0]):
        size = _size(job.folder)
        old = now_ns - touched > keep.age_ns
        if (old or kept + size > keep.size_bytes) and now_ns - touched > _YOUNG_NS and _over(job):
            # The job file is removed last: an interrupted removal is then found again.
            shutil.rmtree(job.folder, ignore_errors=True)
            removed.append(job.id)
        else:
            kept += size
    return removed


def _over(job: Job) -> bool:
    return not job.segment.exists() and not running(job)


def _touched(folder: Path) -> int:
    """The time of the last change in a run directory, in nanoseconds since 1970."""
    times = [0]
    try:
        with os.scandir(folder) as entries:
            times += [entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries]
    except OSError:
        return 0
    return max(times)


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size  # noqa: PTH118
            except OSError:
                continue
    return total
