"""Use case: change the thresholds of the preset `ksigma` for a running job, by a file in its run directory."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace

from hermes.base.errors import HermesError, InputError
from hermes.base.message import Message
from hermes.base.write_atomic import write_atomic
from hermes.inside.wire.rundir import Job
from hermes.jobs import capture_messages, messages
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings
from hermes.jobs.detect.messages import no_value, number_from, whole_number_from
from hermes.jobs.run_directory_files import content

FILE = "thresholds.json"
_LEAST = {"k": 0.1, "consecutive": 1.0}
_MOST = 1e9
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds that may change while a job runs; None keeps the value from the watcher's environment.

    `k`: deviations above the mean from which on a step is a spike; `consecutive`: spikes in a row that are an alarm.
    """

    k: float | None = None
    consecutive: int | None = None

    def on(self, settings: KSigmaSettings) -> KSigmaSettings:
        """A copy of the `ksigma` settings with the thresholds that are set here."""
        changed = {name: value for name, value in self.set_here().items() if value is not None}
        return replace(settings, **changed)  # type: ignore[arg-type]

    def over(self, older: Thresholds) -> Thresholds:
        """The thresholds of this object, with missing values taken from `older`."""
        return Thresholds(
            k=older.k if self.k is None else self.k,
            consecutive=older.consecutive if self.consecutive is None else self.consecutive,
        )

    def set_here(self) -> dict[str, float | None]:
        """The value of every threshold by its name, None if not set."""
        return {"k": self.k, "consecutive": self.consecutive}

    def message(self) -> Message:
        """The set thresholds, as `hermes thresholds` prints them."""
        values = [f"{name} {value:g}" for name, value in self.set_here().items() if value is not None]
        return messages.thresholds_set(values=values) if values else messages.THRESHOLDS_DEFAULT


def read(job: Job) -> Thresholds:
    """The thresholds in the job's file; none without a file. Raises `InputError` for a damaged file."""
    path = job.folder / FILE
    found = content(path, _LARGEST)
    if found is None and not os.path.lexists(path):
        return Thresholds()
    try:
        raw = json.loads(found or b"")
    except (ValueError, RecursionError) as broken:
        raise InputError(capture_messages.thresholds_unreadable(why=type(broken).__name__), where=str(path)) from broken
    if not isinstance(raw, dict) or not raw.keys() <= _LEAST.keys():
        raise InputError(capture_messages.THRESHOLDS_UNKNOWN, where=str(path))
    for name, value in raw.items():
        _check(name, value, str(path))
    return Thresholds(**raw)


def write(job: Job, wanted: Thresholds) -> Thresholds:
    """Set the wanted thresholds and keep the others; returns the thresholds that now hold. Raises `HermesError`.

    The file is replaced as a whole: a watcher never reads half of it.
    """
    for name, value in wanted.set_here().items():
        if value is not None:
            _check(name, value, name)
    now = wanted.over(read(job))
    path = job.folder / FILE
    text = json.dumps({name: value for name, value in now.set_here().items() if value is not None})
    try:
        with write_atomic(path) as file:
            file.write(text.encode())
    except OSError as refused:
        raise HermesError(
            capture_messages.cannot_write(path=str(path), why=refused.strerror or ""), where=job.id
        ) from refused
    return now


def stamp(job: Job) -> tuple[int, int]:
    """Two numbers that change whenever the file of thresholds is replaced; zeros without a file."""
    try:
        facts = (job.folder / FILE).stat()
    except OSError:
        return 0, 0
    return facts.st_mtime_ns, facts.st_ino


def _check(name: str, value: object, where: str) -> None:
    whole = name == "consecutive"
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not _LEAST[name] <= value < _MOST:
        hint = (whole_number_from if whole else number_from)(least=_LEAST[name])
        raise InputError(no_value(value=str(value)[:40], name=name), where=where, hint=hint)
