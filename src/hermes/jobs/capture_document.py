"""Captures as JSON for other programs: each rank's step, the request, and the ranks' answers."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import replace

from hermes.base.errors import QueryError
from hermes.inside.wire.control import FINAL, Control, Slot
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.jobs import capture_messages
from hermes.jobs.request_capture import (
    RequestedCapture,
    answers_of_ranks,
    latest_capture,
    progress_of_ranks,
    write_manifest,
)

STATUS = "hermes.profile-status/1"
CAPTURE = "hermes.capture/1"
_PAUSE_S = 0.02
_TAKEN_UP_STEPS, _TAKEN_UP_NS = 3, 2_000_000_000


def status(job: Job) -> dict[str, object]:
    """The step of each living rank, and its answer to the last capture request."""
    at = progress_of_ranks(job)
    there = latest_capture(job)
    return {
        "schema": STATUS, "job": job.id, "launch": _launch(job), "folder": str(job.folder),
        "capture": None if there is None else {"start_step": there.request.start_step, "steps": there.request.steps},
        "ranks": [
            {"rank": slot.rank, "alive": slot.alive, "step": at[slot.rank][0] if slot.rank in at else None,
             "step_ns": at[slot.rank][1] if slot.rank in at else None, "state": slot.state, "text": slot.text}
            for slot in _slots(job)
        ],
    }  # fmt: skip


def capture(asked: RequestedCapture, said: Mapping[int, Slot]) -> dict[str, object]:
    """A capture request as JSON: its settings, its folder, and the answer of each rank so far."""
    return {
        "schema": CAPTURE, "job": asked.job.id, "folder": str(asked.folder),
        "report": str(asked.job.folder / "reports" / asked.folder.name),
        "start_step": asked.request.start_step, "steps": asked.request.steps,
        "ranks": [{"rank": slot.rank, "state": slot.state, "text": slot.text} for slot in said.values()],
    }  # fmt: skip


def text(document: Mapping[str, object]) -> str:
    """The document as JSON in one line."""
    return json.dumps(document, separators=(",", ":"))


def ranks_that_heard(asked: RequestedCapture) -> dict[int, Slot]:
    """The answers of the ranks once all have seen the request: ranks check after each step, so this waits for some
    steps."""
    slowest = max((wall for _, wall in progress_of_ranks(asked.job).values()), default=0)
    end = time.monotonic_ns() + _TAKEN_UP_STEPS * slowest + _TAKEN_UP_NS
    while True:
        said = answers_of_ranks(asked)
        if all(slot.state != "none" for slot in said.values()) or time.monotonic_ns() > end:
            return said
        time.sleep(_PAUSE_S)


def asked_at(job: Job, start_step: int) -> RequestedCapture:
    """The last requested capture, if it begins at step `start_step`. Raises `QueryError`."""
    there = latest_capture(job)
    if there is None or there.request.start_step != start_step:
        raise QueryError(capture_messages.no_capture_at(first=start_step), where=job.id)
    return there


def outcome(asked: RequestedCapture) -> dict[int, Slot]:
    """The last answers of all ranks; for a rank without a last answer when the time is over, its earlier answer."""
    while True:
        said = answers_of_ranks(asked)
        if all(slot.state in FINAL for slot in said.values()) or time.time_ns() > asked.request.deadline_ns:
            write_manifest(asked, said.values())
            return said
        time.sleep(5 * _PAUSE_S)


def _slots(job: Job) -> list[Slot]:
    try:
        control = Control.attach(job.segment, job=job.id)
    except LiveError:
        return []
    try:
        return [replace(slot, text=slot.text[:200]) for slot in control.slots()]
    finally:
        control.close()


def _launch(job: Job) -> str:
    for _, _, path in rings(job):
        with contextlib.suppress(LiveError, OSError):
            reader = RingReader(path)
            reader.close()
            if reader.about.get("launch"):
                return str(reader.about["launch"])[:100]
    return ""
