"""Running jobs for the pages: the view that `hermes watch` shows, and captures requested from a page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from hermes.base.errors import HermesError, InputError
from hermes.base.message import Text
from hermes.base.say import LANGUAGES, read_told, say
from hermes.inside.wire.control import LEVELS
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import Job
from hermes.jobs.api import (
    Alarm,
    CaptureWish,
    Cause,
    JobView,
    Overview,
    RankView,
    RequestedCapture,
    analysed,
    answers_of_ranks,
    bandwidth_lines,
    cancel,
    capture_messages,
    choices,
    events,
    find_job,
    follow,
    is_finished,
    latest_capture,
    messages,
    of_alarm,
    reason,
    request_capture_of_job,
)
from hermes.report.findings_json import finding_document
from hermes.web.json_answers import FullError

MOST_STEPS = 100
MOST_RANKS = 256
LISTENERS = 16
"""Pages that are kept up to date at once: each holds a connection open."""
_CAPTURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_PERIOD_S = 1.0
_EVENTS = 20
_ALARMS = 10
_POINTS = 60
_ENDED = 5
_LONGEST = 2_000


class Jobs:
    """The running jobs of this user. This server only watches; `hermes run` and `hermes watch` capture on alarms.

    Jobs are read only while a page listens; an ended job stays in the view, in its last state.
    """

    def __init__(self, environment: Mapping[str, str], *, period_s: float = _PERIOD_S) -> None:
        self._environment = environment
        self._period_s = period_s
        self._overview: Overview | None = None
        self._ended: dict[str, dict[str, object]] = {}
        self._shown: dict[str, dict[str, object]] = {}
        self._picture = b""
        self._looked = 0.0
        self._listeners = 0
        self._lock = threading.Lock()

    async def stream(self) -> AsyncIterator[bytes]:
        """The view as server-sent events: an event after each change, else a comment; until the page closes."""
        last = b""
        self._listeners += 1
        try:
            while True:
                picture = await asyncio.to_thread(self.picture)
                yield b": as it was\n\n" if picture == last else b"data: " + picture + b"\n\n"
                last = picture
                await asyncio.sleep(self._period_s)
        finally:
            self._listeners -= 1
            if not self._listeners:
                await asyncio.shield(asyncio.to_thread(self.close))

    def refuse(self) -> None:
        """Raise `FullError` when no further page can be kept up to date."""
        if self._listeners >= LISTENERS:
            raise FullError(capture_messages.pages_full(n=LISTENERS), hint=capture_messages.CLOSE_A_PAGE)

    def picture(self) -> bytes:
        """All jobs as JSON in one line; read anew once the last look is a period old."""
        with self._lock:
            now = time.monotonic()
            if not self._picture or now - self._looked >= self._period_s / 2:
                try:
                    found = self._look()
                except (HermesError, LiveError, OSError, ValueError) as failed:
                    found = {"jobs": [], "levels": list(LEVELS), "wrong": text_in_languages(reason(failed))}
                self._picture = json.dumps(found, allow_nan=False, separators=(",", ":")).encode()
                self._looked = time.monotonic()
            return self._picture

    def close(self) -> None:
        """Release all jobs; the next look begins anew."""
        with self._lock:
            if self._overview is not None:
                self._overview.close()
            self._overview, self._picture, self._shown, self._ended = None, b"", {}, {}

    def capture(self, wish: object) -> dict[str, object]:
        """Request a capture of a job, as a page asks; the answer names its steps and folder. Raises `HermesError`."""
        name, steps, level, ranks = _wish(wish)
        job = self._job(name)
        asked = request_capture_of_job(
            job, CaptureWish(steps=steps, level=level, ranks=ranks, reason=messages.ASKED_ON_PAGE, options={}),
            now_ns=time.time_ns(),
        )  # fmt: skip
        # The requesting program writes the manifest when the ranks have answered.
        threading.Thread(target=_see_through, args=(asked,), name="hermes-capture", daemon=True).start()
        return {"first": asked.request.start_step, "steps": steps, "folder": str(asked.folder)}

    def cancel(self, wish: object) -> dict[str, object]:
        """End the waiting or running capture of a job. Raises `HermesError`."""
        cancel(self._job(_name(_fields(wish, {"job"}))))
        return {}

    def report(self, job: str, capture: str) -> Path:
        """The report on a capture of a job that the page shows. Raises `InputError` without a report."""
        shown = self._shown.get(job) or self._ended.get(job)
        if shown is None or not _CAPTURE.fullmatch(capture):
            raise InputError(capture_messages.NO_REPORT, where=f"{job}/{capture}"[:300])
        folder = Path(str(shown["folder"])).resolve()
        path = folder / "reports" / capture / "report.html"
        if path.resolve() != path or not path.is_file():
            raise InputError(capture_messages.NO_REPORT, where=f"{job}/{capture}"[:300])
        return path

    def _job(self, name: str) -> Job:
        job = find_job(name, self._environment)
        if job.id != name:
            raise InputError(capture_messages.not_running(name=name), where="job")
        return job

    def _look(self) -> dict[str, object]:
        if self._overview is None:
            self._overview = Overview(
                self._environment, name="", preset="robust", capture=False, peak_flops=None, say=_nothing, acts=False
            )
        views = {view.id: view for view in self._overview.look()}
        known = {name: job for name in views if (job := self._overview.job(name)) is not None}
        for gone in self._shown.keys() - views.keys():
            self._ended[gone] = {**self._shown[gone], "running": False}
        self._shown = {name: _job_shown(views[name], job, self._overview.alarms(name)) for name, job in known.items()}
        ended = [shown for name, shown in self._ended.items() if name not in self._shown][-_ENDED:]
        return {"jobs": [*self._shown.values(), *reversed(ended)], "levels": list(LEVELS)}


def _see_through(asked: RequestedCapture) -> None:
    """Wait until the ranks have answered, then until their capture is analysed."""
    with contextlib.suppress(HermesError, LiveError, OSError):
        said = follow(asked, tell=lambda slot: None)
        if any(slot.state == "finished" for slot in said.values()):
            analysed(asked.job, asked.folder)


def _nothing(_text: Text) -> None:
    """Print nothing: the page shows the message."""


def _job_shown(view: JobView, job: Job, alarms: list[tuple[Alarm, Cause | None]]) -> dict[str, object]:
    return {
        "job": job.id,
        "running": True,
        "state": None if view.state is None else view.state.value,
        "stalled": None if view.stalled is None else text_in_languages(view.stalled),
        "bandwidth": [text_in_languages(line) for line in bandwidth_lines(view)],
        "command": " ".join(job.command)[:2_000],
        "folder": str(job.folder),
        "created_ns": str(job.created_ns),
        "ranks": [_rank(rank) for rank in view.ranks],
        "alarms": [_alarm(alarm, cause) for alarm, cause in reversed(alarms[-_ALARMS:])],
        "capture": _capture(job),
        "events": [_event(event) for event in events(job, _EVENTS)],
    }


def _rank(rank: RankView) -> dict[str, object]:
    walls = sorted(rank.walls_ns)
    return {
        "rank": rank.rank,
        "step": rank.step,
        "now_ns": walls[len(walls) // 2] if walls else None,
        "baseline_ns": rank.baseline_ns,
        "walls_ns": list(rank.walls_ns[-_POINTS:]),
        "samples_per_s": rank.samples_per_s,
        "tokens_per_s": rank.tokens_per_s,
        "mfu": rank.mfu,
        "split": [[spent.value, ns] for spent, ns in rank.split],
        "memory_bytes": rank.memory_bytes,
    }


def _alarm(alarm: Alarm, cause: Cause | None) -> dict[str, object]:
    return {
        "rank": alarm.rank, "kind": alarm.kind.value, "since": alarm.since, "step": alarm.step,
        "before_ns": alarm.before_ns, "after_ns": alarm.after_ns,
        "cause": text_in_languages(cause.name.message) if cause else None, "share": cause.share if cause else None,
        "do": text_in_languages(cause.name.remedy) if cause else None,
        "finding": finding_document(of_alarm(alarm, cause, (alarm.rank,))),
    }  # fmt: skip


def _capture(job: Job) -> dict[str, object] | None:
    """The last requested capture, and the answer of each rank."""
    asked = latest_capture(job)
    if asked is None:
        return None
    said = answers_of_ranks(asked)
    request = asked.request
    return {
        "level": request.level,
        "first": request.start_step,
        "steps": request.steps,
        "reason": request.reason,
        "folder": str(asked.folder),
        "done": is_finished(said) or time.time_ns() > request.deadline_ns,
        "ranks": [{"rank": slot.rank, "state": slot.state, "text": slot.text} for slot in said.values()],
    }


def text_in_languages(text: Text) -> dict[str, str]:
    """A text in every language, bounded: a page shows its reader's language."""
    return {language: say(text, language)[:_LONGEST] for language in LANGUAGES}


def _event(event: Mapping[str, object]) -> dict[str, object]:
    """A line of a job's events, checked: any program that can write the file may have written it."""
    told = {name: event.get(name) for name in ("kind", "report", "folder", "rank", "change", "cause", "since")}
    at, said = event.get("time_ns"), event.get("message")
    found: dict[str, object] = {name: str(value)[:_LONGEST] for name, value in told.items() if value is not None}
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found["said"] = text_in_languages(read_told(said)) if isinstance(said, dict) else None
    return {**found, "time_ns": str(at) if isinstance(at, int) and 0 <= at < 1 << 63 else ""}


def _wish(said: object) -> tuple[str, int, str, tuple[int, ...]]:
    raw = _fields(said, {"job", "steps", "level", "ranks"})
    steps, level, ranks = raw["steps"], raw["level"], raw["ranks"]
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise InputError(capture_messages.steps_of_capture(n=MOST_STEPS), where="steps")
    if level not in LEVELS:
        raise InputError(capture_messages.no_level(level=str(level)[:40]), where="level", hint=choices(names=LEVELS))
    if (
        not isinstance(ranks, list)
        or len(ranks) > MOST_RANKS
        or not all(type(rank) is int and 0 <= rank < 1 << 31 for rank in ranks)
    ):
        raise InputError(capture_messages.ranks_of_capture(n=MOST_RANKS), where="ranks")
    return _name(raw), steps, str(level), tuple(sorted(set(ranks)))


def _fields(said: object, names: set[str]) -> dict[str, object]:
    if not isinstance(said, dict) or said.keys() != names:
        raise InputError(capture_messages.fields_of_request(names=sorted(names)))
    return said


def _name(raw: Mapping[str, object]) -> str:
    name = raw["job"]
    if not isinstance(name, str) or not name or len(name) > 200:
        raise InputError(capture_messages.NOT_A_NAME, where="job")
    return name
