"""What a watcher noted of a job: a line of JSON for each event, in the run directory.

An event holds its message as an identifier with arguments: whoever shows it says it in the reader's language.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping

from hermes.base.message import Text
from hermes.base.say import told
from hermes.inside.wire.rundir import Job

EVENTS = "events.jsonl"
_LAST_EVENTS = 65_536


def event(kind: str, message: Text, do: Text | None = None, **facts: object) -> dict[str, object]:
    """An event: what happened as a message, what to do, and facts for programs. Messages are as `told` makes them."""
    said = {"message": told(message), "do": None if do is None else told(do)}
    return {"time_ns": time.time_ns(), "kind": kind, **said, **facts}


def note(job: Job, made: Mapping[str, object]) -> None:
    """Append an event; a disk that is full loses it."""
    line = json.dumps(made) + "\n"
    with contextlib.suppress(OSError), (job.folder / EVENTS).open("a", encoding="utf-8") as file:
        file.write(line)


def events(job: Job, most: int) -> list[dict[str, object]]:
    """The latest alarms, stragglers, captures and findings that a watcher noted, the newest first."""
    try:
        with (job.folder / EVENTS).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LAST_EVENTS, 0))
            lines = file.read().splitlines()
    except OSError:
        return []
    found: list[dict[str, object]] = []
    for line in reversed(lines):
        with contextlib.suppress(ValueError, RecursionError):
            made = json.loads(line)
            if isinstance(made, dict):
                found.append(made)
        if len(found) == most:
            break
    return found
