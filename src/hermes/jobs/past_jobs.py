"""Use case: read from run directories what jobs did since a given time, whether the jobs still run or not.

A run directory may belong to a stranger: its files are opened with the checks of `owned` and size limits, and a damaged
file costs only its own rows.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from hermes.base.errors import Diagnostic, HermesError, InputError
from hermes.base.message import Message, Text, Word
from hermes.base.say import message_as_json, read_foreign
from hermes.inside.wire import rundir
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.rundir import JOB_FILE, Job
from hermes.jobs import past_messages as messages
from hermes.jobs import past_steps
from hermes.jobs.captures_on_disk import captures_on_disk
from hermes.jobs.detect.alarm import AlarmKind
from hermes.jobs.detect.causes import Spent
from hermes.jobs.detect.job_alarms import replay
from hermes.jobs.detect.read_step_logs import read_steps
from hermes.jobs.detect.replay_detector import detector_of
from hermes.jobs.events import events, watched
from hermes.jobs.failure_reasons import reason
from hermes.jobs.notice_findings import facts_of, finding_of
from hermes.jobs.past_job_rows import DAY_NS, CaptureHow, JobDay, LateRank, PastCapture, PastJob, SlowSteps
from hermes.jobs.past_steps import LoggedRank
from hermes.jobs.request_capture import MANIFEST
from hermes.jobs.run_directory_files import content
from hermes.model.leaf import Risk

_MOST_JOBS, _MOST_RANKS, _MOST_CAPTURES = 10_000, 256, 1_000
_MOST_EVENTS, _MOST_BYTES = 50_000, 32 << 20
_MOST_REPLAYED, _PRESET = 100_000, "robust"
"""Largest number of records of an unwatched job that are searched for alarms, and the preset of the search."""
_LONGEST_TEXT, _LONGEST_NAME = 600, 120
_LARGEST_MANIFEST = 1 << 20
_LOG = re.compile(r"steps-rank(\d{1,9})\.log")


def past_jobs(
    paths: Sequence[Path], environment: Mapping[str, str], since_ns: int, until_ns: int
) -> Iterator[PastJob | Diagnostic]:  # fmt: skip
    """The jobs of run directories, or of folders with run directories, in a window of time; or why a directory is left
    out.

    Raises `InputError` for a path that is no folder.
    """
    for path in paths:
        if not path.is_dir():
            raise InputError(messages.NO_RUN_FOLDER, where=str(path), hint=messages.DO_NAME_RUN_FOLDERS)
        for folder in _folders(path):
            try:
                past = _past(rundir.read(folder), environment, since_ns, until_ns)
            except LiveError as refused:
                yield Diagnostic(level="degraded", message=reason(refused), where=str(folder), lost=messages.LOST_JOB)
                continue
            except (OSError, ValueError, OverflowError) as broken:
                why = messages.unreadable(why=type(broken).__name__)
                yield Diagnostic(level="degraded", message=why, where=str(folder), lost=messages.LOST_JOB)
                continue
            if past is not None:
                yield past


def _folders(path: Path) -> list[Path]:
    if (path / JOB_FILE).exists():
        return [path]
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        names = [entry.name for entry in islice(entries, _MOST_JOBS) if entry.is_dir(follow_symlinks=False)]
        return [path / name for name in sorted(names) if (path / name / JOB_FILE).exists()]
    return []


def _past(job: Job, environment: Mapping[str, str], since_ns: int, until_ns: int) -> PastJob | None:
    logs = _logs(job, since_ns, until_ns)
    noted = [one for one in reversed(events(job, _MOST_EVENTS, _MOST_BYTES)) if _moment(one) is not None]
    if replayed := not watched(job) and sum(one.records for one in logs.values()) <= _MOST_REPLAYED:
        noted = list(_replayed(job, environment))
    about = next((one.about for one in logs.values()), {})
    ends = [one.end_ns for one in logs.values() if len(one.end_ns)]
    made = PastJob(
        job=job.id, launch=_name(about.get("launch")), host=_name(about.get("host")), ranks=len(logs),
        first_ns=min((int(one[0]) for one in ends), default=until_ns),
        last_ns=max((int(one[-1]) for one in ends), default=since_ns), days=_days(logs),
    )  # fmt: skip
    story = _Story(made, logs, since_ns, until_ns)
    for one in noted:
        story.take(one)
    story.end()
    made.captures = _captures(job, made.host, noted, since_ns, until_ns)
    if not ends and not made.slow and not made.captures:
        return None
    made.notes = list(_notes(made, logs, complete=replayed or watched(job)))
    return made


def _logs(job: Job, since_ns: int, until_ns: int) -> dict[int, LoggedRank]:
    with os.scandir(job.folder) as entries:
        found = sorted(int(match[1]) for entry in islice(entries, _MOST_JOBS) if (match := _LOG.fullmatch(entry.name)))
    logs = {rank: past_steps.read_step_log(job.log_path(rank), since_ns, until_ns) for rank in found[:_MOST_RANKS]}
    return {rank: one for rank, one in logs.items() if one is not None}


def _days(logs: Mapping[int, LoggedRank]) -> dict[int, JobDay]:
    made: dict[int, JobDay] = {}
    for one in logs.values():
        days = one.end_ns // DAY_NS
        for number in map(int, np.unique(days)):
            mine, day = days == number, made.setdefault(number, JobDay(day=number))
            day.steps = max(day.steps, int(mine.sum()))
            day.trained_ns = max(day.trained_ns, int(one.wall_ns[mine].sum()))
            day.walls.add(one.wall_ns[mine & one.usual])
    return made


def _notes(made: PastJob, logs: Mapping[int, LoggedRank], *, complete: bool) -> Iterator[Message]:
    if damaged := sum(one.damaged for one in logs.values()):
        yield messages.records_damaged(job=made.job, n=damaged)
    if any(one.cut for one in logs.values()):
        yield messages.log_cut(job=made.job)
    if not complete:
        yield messages.nobody_noted(job=made.job)


def _replayed(job: Job, environment: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """The events of a job that no watcher noted, detected in the job's logs."""
    with contextlib.suppress(HermesError, LiveError, OSError):
        ranks = read_steps(job.folder)
        ends: dict[int, int] = {}
        for one in ranks:
            ends |= zip(one.columns["step"].tolist(), one.columns["end_ns"].tolist(), strict=True)
        for notice in replay(ranks, lambda rank: detector_of(_PRESET, rank, environment)):
            if notice.kind in ("alarm", "recovered", "straggler", "caught up"):
                said = message_as_json(finding_of(notice).message)
                yield {"time_ns": ends.get(notice.step, 0), "kind": notice.kind, "message": said, **facts_of(notice)}


@dataclass(slots=True)
class _Story:
    """The history of one job, from its events in order: an alarm opens a period, a recovery closes it."""

    past: PastJob
    logs: Mapping[int, LoggedRank]
    since_ns: int
    until_ns: int
    _open: SlowSteps | None = None
    _late: LateRank | None = None
    _stall: SlowSteps | None = None
    _stalls: list[tuple[int, int]] = field(default_factory=list)

    def take(self, event: Mapping[str, object]) -> None:
        """Take the next event. An event that no watcher would write is skipped."""
        at = _moment(event) or 0
        match event.get("kind"):
            case "alarm":
                self._alarm(event, at)
            case "recovered" if self._open is not None and {*_ranks(event)} & {*self._open.ranks}:
                self._close(at, _whole(event.get("since")), over=True)
            case "no progress":
                self._still(event, at)
            case "progress" if self._stall is not None:
                self._goes_on(at)
            case "straggler" | "caught up":
                self._straggles(event, at)
            case "numbers":
                self.past.slow.append(self._row(Risk.WRONG_NUMBERS, event, at, at))

    def end(self) -> None:
        """End the history: open periods lasted until the last step."""
        last = max(self.past.last_ns, self.since_ns)
        if self._stall is not None:
            self._end_stall(max(last, self._stall.until_ns))
        self._close(last, None, over=False)
        self._end_late(last)
        rows = [one for one in self.past.slow if one.until_ns > self.since_ns and one.since_ns <= self.until_ns]
        for one in rows:
            one.since_ns = max(one.since_ns, self.since_ns)
            one.lost = self._cost(one)
        self.past.slow = rows

    def _row(self, kind: Word, event: Mapping[str, object], since_ns: int, until_ns: int) -> SlowSteps:
        said = event.get("message")
        return SlowSteps(
            kind=kind, host=self.past.host, ranks=_ranks(event), since_ns=since_ns, until_ns=until_ns,
            said=_said(said), step=_whole(event.get("since", event.get("step"))),
        )  # fmt: skip

    def _alarm(self, event: Mapping[str, object], at: int) -> None:
        rank, since, before = (_whole(event.get(name)) for name in ("rank", "since", "before_ns"))
        kind = next((one for one in AlarmKind if one.value == event.get("change")), None)
        if rank is None or since is None or before is None or kind is None:
            return
        begin = self.logs[rank].begin_of(since, at) if rank in self.logs else None
        row = self._row(kind, event, at if begin is None else begin, at)
        row.ranks = (rank, *(one for one in row.ranks if one != rank))
        row.cause = next((one for one in Spent if one.value == event.get("cause")), None)
        row.before_ns, row.after_ns = before, _whole(event.get("after_ns"))
        if self._open is not None:
            # Slower again: the usual time is still the one before the first alarm.
            row.before_ns = min(before, self._open.before_ns or before)
            self._end_row(row.since_ns, over=False)
        self._open = row

    def _close(self, at: int, step: int | None, *, over: bool) -> None:
        if self._open is not None:
            rank = self._open.ranks[0]
            end = self.logs[rank].begin_of(step, at) if step is not None and rank in self.logs else None
            self._end_row(at if end is None else end, over=over)

    def _end_row(self, until_ns: int, *, over: bool) -> None:
        if self._open is not None:
            self._open.until_ns, self._open.over = max(until_ns, self._open.since_ns), over
            self.past.slow.append(self._open)
            self._open = None

    def _still(self, event: Mapping[str, object], at: int) -> None:
        ends = [one.end_ns[one.end_ns <= at] for one in self.logs.values()]
        last = max((int(one[-1]) for one in ends if len(one)), default=at)
        self._stall = self._row(Risk.STALL, event, last, at)

    def _goes_on(self, at: int) -> None:
        since = self._stall.since_ns if self._stall else at
        ends = [one.end_ns[one.end_ns > since] for one in self.logs.values()]
        self._end_stall(min((int(one[0]) for one in ends if len(one)), default=at), over=True)

    def _end_stall(self, until_ns: int, *, over: bool = False) -> None:
        stall, self._stall = self._stall, None
        if stall is not None:
            stall.until_ns, stall.over = max(until_ns, stall.since_ns), over
            self._stalls.append((stall.since_ns, stall.until_ns))
            self.past.slow.append(stall)

    def _straggles(self, event: Mapping[str, object], at: int) -> None:
        self._end_late(at)
        rank = next(iter(_ranks(event)), None)
        if event["kind"] == "straggler" and rank is not None:
            begin = self.logs[rank].begin_of(_whole(event.get("since")) or 0, at) if rank in self.logs else None
            self._late = LateRank(
                host=self.past.host, rank=rank, since_ns=at if begin is None else begin, until_ns=at,
                own_ns=_whole(event.get("own_ns")), others_ns=_whole(event.get("others_ns")), waited_ns=None,
            )  # fmt: skip

    def _end_late(self, until_ns: int) -> None:
        late, self._late = self._late, None
        if late is None or until_ns <= self.since_ns:
            return
        late.since_ns, late.until_ns = max(late.since_ns, self.since_ns), until_ns
        if late.rank in self.logs and late.own_ns is not None and late.others_ns is not None:
            ends = self.logs[late.rank].end_ns
            steps = int(((ends > late.since_ns) & (ends <= until_ns)).sum())
            late.waited_ns = steps * max(late.own_ns - late.others_ns, 0)
        self.past.late.append(late)

    def _cost(self, row: SlowSteps) -> dict[int, int]:
        """The cost of a row by day: for a standstill its time, for slower steps their extra time."""
        if row.kind is Risk.STALL:
            return {row.until_ns // DAY_NS: row.until_ns - row.since_ns}
        log = self.logs.get(row.ranks[0]) if row.ranks else None
        if log is None or row.before_ns is None:
            return {}
        apart = np.zeros(len(log.end_ns), dtype=np.bool_)
        for since, until in self._stalls:
            apart |= (log.end_ns > since) & (log.end_ns <= until)
        return log.longer(row.since_ns, row.until_ns, row.before_ns, apart)


def _captures(
    job: Job, host: str, noted: Sequence[Mapping[str, object]], since_ns: int, until_ns: int
) -> list[PastCapture]:  # fmt: skip
    found = {
        Path(str(one.get("report"))[:4096]).parent.name: _said(one.get("message"))
        for one in noted if one.get("kind") == "finding"
    }  # fmt: skip
    made = []
    for at_ns, how, path in captures_on_disk(job)[-_MOST_CAPTURES:]:
        if since_ns < at_ns <= until_ns and how in [*CaptureHow]:
            told = _manifest(path)
            report = job.folder / "reports" / path.name / "report.html"
            ranks = told.get("ranks")
            made.append(PastCapture(
                host=host, at_ns=at_ns, how=CaptureHow(how), start_step=_whole(told.get("start_step")),
                steps=_whole(told.get("steps")), ranks=len(ranks) if isinstance(ranks, dict) else None,
                found=found.get(path.name), report=report.absolute() if report.is_file() else None,
            ))  # fmt: skip
    return made


def _manifest(folder: Path) -> Mapping[str, object]:
    with contextlib.suppress(ValueError, RecursionError, OSError):
        made = json.loads(content(folder / MANIFEST, _LARGEST_MANIFEST) or b"")
        return made if isinstance(made, dict) else {}
    return {}


def _said(told: object) -> Text:
    with contextlib.suppress(ValueError):
        return read_foreign(told if isinstance(told, dict) else {"text": told}, _LONGEST_TEXT)
    return ""


def _moment(event: Mapping[str, object]) -> int | None:
    return _whole(event.get("time_ns"))


def _ranks(event: Mapping[str, object]) -> tuple[int, ...]:
    ranks = event.get("ranks", [event.get("rank")])
    return tuple(one for one in ranks[:_MOST_RANKS] if _whole(one) is not None) if isinstance(ranks, list) else ()


def _whole(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _name(value: object) -> str:
    return str(value or "")[:_LONGEST_NAME]
