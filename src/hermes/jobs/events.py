"""Stores the events that a watcher noted of a job: a line of JSON for each event, in the run directory.

An event holds its message as an identifier with arguments: the program that shows the event prints it in the reader's
language.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping

from hermes.base.message import Text
from hermes.base.say import message_as_json
from hermes.inside.wire.rundir import Job
from hermes.jobs.run_directory_files import last_lines

EVENTS = "events.jsonl"
WATCHER = ".watcher"
"""The file that a job's acting watcher locks; it exists as soon as a watcher has seen a rank."""
_LAST_EVENTS = 65_536


def watched(job: Job) -> bool:
    """Whether a watcher acts for a job, or did while the job ran."""
    return (job.folder / WATCHER).exists()


def event(kind: str, message: Text, do: Text | None = None, **facts: object) -> dict[str, object]:
    """A new event: its message, what to do, and facts for programs. Messages are encoded by `told`."""
    said = {"message": message_as_json(message), "do": None if do is None else message_as_json(do)}
    return {"time_ns": time.time_ns(), "kind": kind, **said, **facts}


def note(job: Job, made: Mapping[str, object]) -> None:
    """Append an event to the job's file; on a full disk the event is lost."""
    line = json.dumps(made) + "\n"
    with contextlib.suppress(OSError), (job.folder / EVENTS).open("a", encoding="utf-8") as file:
        file.write(line)


def events(job: Job, most: int, most_bytes: int = _LAST_EVENTS) -> list[dict[str, object]]:
    """The latest alarms, stragglers, captures and findings that a watcher noted, the newest first."""
    found: list[dict[str, object]] = []
    for line in reversed(last_lines(job.folder / EVENTS, most_bytes)):
        with contextlib.suppress(ValueError, RecursionError):
            made = json.loads(line)
            if isinstance(made, dict):
                found.append(made)
        if len(found) == most:
            break
    return found
