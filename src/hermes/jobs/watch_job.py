"""Use case: follow a running job, raise alarms, capture the job, analyse captures beside it, report findings."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from hermes.base.errors import HermesError
from hermes.base.message import Message, Text
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.inside.wire.step_record import AT
from hermes.jobs import change_alarm_thresholds as thresholds
from hermes.jobs import messages, saved_hang
from hermes.jobs.capture_policy import CapturePolicy, trouble_of
from hermes.jobs.captures_on_disk import automatic, set_aside, started
from hermes.jobs.detect.alarm import Alarm, AlarmKind, Detector
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings
from hermes.jobs.detect.causes import Cause
from hermes.jobs.detect.job_alarms import KEPT, JobDetector, Notice
from hermes.jobs.detect.ksigma import KSigma
from hermes.jobs.detect.numeric_faults import Numerics
from hermes.jobs.detect.read_step_logs import Steps, steps_of
from hermes.jobs.detect.replay_detector import detector_of
from hermes.jobs.events import WATCHER, event, note
from hermes.jobs.failure_reasons import reason
from hermes.jobs.find_stall import RankProgress, Stall, find_stall_of_job, no_stacks, seen_ns, stacks
from hermes.jobs.messages import JobState
from hermes.jobs.notice_findings import facts_of, finding_of
from hermes.jobs.request_capture import (
    CaptureWish,
    RequestedCapture,
    answers_of_ranks,
    is_finished,
    request_capture_of_job,
    said_by,
    steps_to_hold_a_long_one,
    write_manifest,
)
from hermes.jobs.running_analyses import Analyses
from hermes.jobs.stall_limits import ALARM, LATEST

_IDLE_NS = 10_000_000_000
_MOST_RANKS = 4096


@dataclass(slots=True, kw_only=True)
class _Rank:
    """The watcher's data on one process of a rank."""

    reader: RingReader
    pid: int
    rows: deque[tuple[int, ...]]
    seen_ns: int

    def steps(self, rank: int) -> Steps:
        return steps_of(rank, list(self.rows), self.reader.about)

    def progress(self) -> RankProgress:
        """The rank's progress, for the check whether the job is stuck."""
        rows = list(self.rows)[-LATEST:]
        walls = sorted(row[AT["wall_ns"]] for row in rows)
        return RankProgress(
            pid=self.pid, alive=self.reader.alive, step=rows[-1][AT["step"]], seen_ns=self.seen_ns,
            usual_ns=walls[len(walls) // 2], longest_ns=walls[-1], about=self.reader.about,
        )  # fmt: skip


class Watcher:
    """A watcher that checks one job whenever it is called. Of several watchers of a job the first acts, the others only
    read."""

    def __init__(
        self, job: Job, *, preset: str, environment: Mapping[str, str], capture: bool, say: Callable[[Text], object],
        policy: CapturePolicy | None = None, wish: CaptureWish | None = None, acts: bool = True,
        noted: Callable[[Mapping[str, object]], None] | None = None, kept: int = KEPT, most_ranks: int = _MOST_RANKS,
    ) -> None:  # fmt: skip
        """`acts` False only reads and reports, even if no other watcher acts. `noted` gets each event.

        The latest `kept` steps of a rank are held in memory, of at most `most_ranks` ranks. Raises `HermesError` for an
        unknown preset.
        """
        detector_of(preset, 0, environment)
        self.job, self._kept, self._most_ranks = job, kept, most_ranks
        self._preset, self._environment, self._capture, self._say = preset, environment, capture, say
        self._acts = acts
        self._noted = noted
        self._policy = policy or CapturePolicy()
        self._refused_after = -1
        self._wish = wish or CaptureWish(steps=2, level="light", automatic=True, options={})
        self._ranks: dict[int, _Rank] = {}
        self._detect = JobDetector(self._detector, kept)
        self.numerics = Numerics(job.folder)
        self.stall: Stall | None = None
        self._asked: RequestedCapture | None = None
        self._about: Notice | None = None
        self._next: Notice | None = None
        self._analyses = Analyses(job, self._found)
        self._lock: IO[bytes] | None = None
        self._broken = False
        self._thresholds = thresholds.Thresholds()
        self._thresholds_at = (0, 0)
        self.alarms: list[tuple[Alarm, Cause | None]] = []
        self.findings: list[Message] = []

    def look_safely(self) -> None:
        """Do `look`, but let a failure end only the watching and not the job."""
        if self._broken:
            return
        try:
            self.look(time.time_ns())
        except (HermesError, LiveError, OSError, ValueError) as failed:
            self._broken = True
            self._say(messages.watcher_ends(why=reason(failed)))

    def look(self, now_ns: int) -> None:
        """Read the new records, and act on them."""
        self._adopt()
        self._join(now_ns)
        if self._ranks:
            # Reading `acting` takes the lock: `watched` finds its file from here on.
            _ = self.acting
        for rank, known in self._ranks.items():
            self._read(rank, known, now_ns)
        for notice in self._detect.notices(idle=self._idle(now_ns)):
            self._tell(notice, now_ns)
        self._numbers()
        self._progress(now_ns)
        self._follow()
        self._analyses.collect()

    def steps(self) -> list[Steps]:
        """The latest steps of every rank, as far as the watcher keeps them."""
        return [known.steps(rank) for rank, known in sorted(self._ranks.items()) if known.rows]

    def lives(self, rank: int) -> bool:
        """Whether the process of a rank lives."""
        known = self._ranks.get(rank)
        return known is not None and known.reader.alive

    def scores(self) -> dict[int, float]:
        """The score of each rank's last step in the preset `ksigma`, once it has a baseline."""
        rows = {rank: known.rows for rank, known in self._ranks.items()}
        found = {
            rank: detector.score(rows[rank][-1][AT["wall_ns"]])
            for rank, detector in self._detect.detectors().items()
            if isinstance(detector, KSigma) and rows.get(rank)
        }
        return {rank: score for rank, score in found.items() if score is not None}

    @property
    def state(self) -> JobState:
        """`no progress` while no step ends, `baseline` until the preset `ksigma` has a baseline for every rank, `at
        risk` once an automatic capture was made."""
        if self.stall is not None:
            return JobState.NO_PROGRESS
        if automatic(self.job) and self._asked is None:
            return JobState.AT_RISK
        made = self._detect.detectors().values()
        unarmed = any(isinstance(one, KSigma) and not one.armed for one in made)
        return JobState.BASELINE if unarmed else JobState.WATCHING

    @property
    def acting(self) -> bool:
        """Whether this watcher is the one that acts for the job."""
        if self._lock is None and self._acts:
            with contextlib.suppress(OSError):
                file = (self.job.folder / WATCHER).open("ab")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    file.close()
                    return False
                self._lock = file
        return self._lock is not None

    def _adopt(self) -> None:
        """Use thresholds that were changed since the last look; a damaged file changes nothing."""
        at = thresholds.stamp(self.job)
        if at == self._thresholds_at:
            return
        self._thresholds_at = at
        try:
            self._thresholds = thresholds.read(self.job)
        except HermesError as damaged:
            self._say(messages.thresholds_kept(why=damaged.what))
            return
        for detector in self._detect.detectors().values():
            self._set_thresholds(detector)
        if self.acting:
            other = None if self._preset == "ksigma" else self._preset
            taken = messages.thresholds(now=self._thresholds.message(), unused_by=other)
            self._say(taken)
            self._note("thresholds", taken, k=self._thresholds.k, consecutive=self._thresholds.consecutive)

    def _set_thresholds(self, detector: Detector) -> None:
        if isinstance(detector, KSigma):
            detector.change(self._thresholds.on(KSigmaSettings.of(self._environment)))

    def _detector(self, rank: int) -> Detector:
        made = detector_of(self._preset, rank, self._environment)
        self._set_thresholds(made)
        return made

    def _join(self, now_ns: int) -> None:
        for rank, pid, path in rings(self.job):
            known = self._ranks.get(rank)
            if not self._follows(known, path) if known is not None else len(self._ranks) >= self._most_ranks:
                continue
            with contextlib.suppress(LiveError, OSError):
                # A file that is no ring of Hermes takes no place of a ring.
                reader = RingReader(path)
                reader.skip(self._kept)
                rows: deque[tuple[int, ...]] = deque(maxlen=self._kept)
                if known is not None:
                    self._read(rank, known, now_ns)
                    known.reader.close()
                    rows = known.rows
                self._ranks[rank] = _Rank(reader=reader, pid=pid, rows=rows, seen_ns=now_ns)
                self._detect.add(rank, [], reader.about)

    def _follows(self, known: _Rank, path: Path) -> bool:
        """Whether another ring of the rank is of a later process: the known process has ended."""
        return not known.reader.alive and not known.reader.reads(path)

    def _read(self, rank: int, known: _Rank, now_ns: int) -> None:
        new = known.reader.new()
        if not new:
            return
        known.seen_ns = now_ns if known.rows else seen_ns(new[-1][AT["end_ns"]], now_ns)
        known.rows.extend(new)
        self._detect.add(rank, new, known.reader.about)

    def _idle(self, now_ns: int) -> frozenset[int]:
        """Ranks whose records the detection does not wait for: they end no step any more, or are gone."""
        return frozenset(
            rank
            for rank, known in self._ranks.items()
            if now_ns - known.seen_ns > max(_IDLE_NS, 3 * known.rows[-1][AT["wall_ns"]] if known.rows else 0)
        )

    def _progress(self, now_ns: int) -> None:
        """Report once that no step ends any more, with where the ranks stand, and once that steps go on."""
        ranks = {rank: known for rank, known in self._ranks.items() if known.rows}
        if self.stall is None and not any(known.reader.alive for known in ranks.values()):
            # No rank is stuck: the training is over, or its launcher starts it anew.
            return
        if not ranks or any(now_ns - known.seen_ns < ALARM.least_ns for known in ranks.values()):
            self._goes_on()
            return
        asked = stacks if self.stall is None and self.acting else no_stacks
        found = find_stall_of_job(
            self.job, {rank: known.progress() for rank, known in ranks.items()}, now_ns, ask=asked
        )
        if found is None:
            self._goes_on()
        elif self.stall is None:
            self.stall = found
            if not self._acts or self.acting:
                self._say(found.message)
            if self.acting:
                self._note("no progress", found.message, found.remedy, step=found.step, ranks=list(found.ranks))
                saved_hang.save_hang(self.job, now_ns)
        else:
            self.stall = replace(found, places=self.stall.places)

    def _goes_on(self) -> None:
        if self.stall is None:
            return
        was, self.stall = self.stall, None
        over = messages.progress(waited=was.waited_ns)
        if not self._acts or self.acting:
            self._say(over)
        if self.acting:
            self._note("progress", over, seconds=round(was.seconds, 1))
            saved_hang.drop_hang(self.job)

    def _tell(self, notice: Notice, now_ns: int) -> None:
        if notice.kind == "alarm" and notice.alarm is not None:
            self.alarms.append((notice.alarm, notice.cause))
        if self._acts and not self.acting:
            return
        found = finding_of(notice)
        if notice.kind != "again":
            self._say(found.message)
        if not self.acting:
            return
        if notice.kind != "again":
            do = found.actions[0].title if found.actions else None
            self._note(notice.kind, found.message, do, **facts_of(notice))
        if notice.kind in ("recovered", "caught up"):
            self._next = None
        elif self._capture and notice.kind in ("alarm", "again", "straggler"):
            if self._asked is None:
                self._start(notice, now_ns)
            elif notice.kind != "again":
                # An alarm during a capture gets its own capture afterwards, if the slowness lasts.
                self._next = notice

    def _numbers(self) -> None:
        """Report faults of loss and gradients: no profile shows their cause, so no capture is made."""
        for wrong in self.numerics.look(list(self._ranks)):
            if not self._acts or self.acting:
                self._say(wrong.message)
            if self.acting:
                self._note("numbers", wrong.message, wrong.remedy, step=wrong.step, rank=wrong.rank, fault=wrong.kind)

    def _start(self, notice: Notice, now_ns: int) -> None:
        self._policy.restore(started(self.job))
        about = trouble_of(notice)
        refusal = self._policy.refusal(now_ns, about)
        if refusal:
            # Reported once for each capture that is in the way, and not with each alarm.
            if notice.kind != "again" and self._refused_after != self._policy.captures:
                self._refused_after = self._policy.captures
                self._say(messages.no_capture(why=refusal))
            return
        long = notice.alarm is not None and notice.alarm.kind is AlarmKind.TURNS
        steps = self._wish.steps
        if notice.alarm is not None and long and not notice.alarm.period and notice.alarm.rank in self._ranks:
            steps = max(steps, steps_to_hold_a_long_one(self._ranks[notice.alarm.rank].rows))
        wish = CaptureWish(
            steps=steps, level=self._wish.level, reason=finding_of(notice).message, automatic=True, long=long,
            options=self._wish.options,
        )  # fmt: skip
        try:
            self._asked = request_capture_of_job(self.job, wish, now_ns=now_ns)
        except HermesError as refused:
            self._say(messages.no_capture(why=refused.what))
            return
        self._about = notice
        self._policy.started(now_ns, about)
        self._say(messages.capturing(n=wish.steps, first=self._asked.request.start_step))

    def _follow(self) -> None:
        asked = self._asked
        if asked is None:
            return
        said = answers_of_ranks(asked)
        if said and not is_finished(said) and time.time_ns() < asked.request.deadline_ns:
            return
        self._asked = None
        about, self._about = self._about, None
        write_manifest(asked, said.values(), trouble_of(about) if about else None)
        states = {rank: slot.state for rank, slot in said.items()}
        if {*states.values()} and {*states.values()} <= {"refused", "late"}:
            asked = set_aside(asked)
            self._policy.refused(time.time_ns())
        told = messages.captured(answers=said_by(said.values()), folder=str(asked.folder))
        self._note("capture", told, folder=str(asked.folder), states={str(rank): one for rank, one in states.items()})
        if bad := [slot for slot in said.values() if slot.state != "finished"]:
            self._say(messages.capture_not_whole(answers=said_by(bad)))
        if "finished" in states.values():
            self._analyses.begin(asked.folder, about and self._detect.until_now(about))
        following, self._next = self._next, None
        if following is not None and self._asked is None:
            self._start(following, time.time_ns())

    def _found(self, found: Message, out: Path) -> None:
        """Report the result of a capture's analysis, and the path of its report."""
        self._note("finding", found, report=str(out / "report.html"))
        self.findings.append(found)
        self._say(messages.finding(found=found))
        if (out / "report.html").exists():
            self._say(messages.report(path=str(out / "report.html")))

    def _note(self, kind: str, said: Text, do: Text | None = None, **facts: object) -> None:
        made = event(kind, said, do, **facts)
        note(self.job, made)
        if self._noted is not None:
            self._noted(made)

    @property
    def slow(self) -> bool:
        """Whether an alarm was noticed that is not over."""
        return self._detect.slow

    def close(self, patience_s: float = 60.0) -> None:
        """Finish at the job's end: let running analyses come to their end, then release the job."""
        end = time.monotonic() + patience_s
        with contextlib.suppress(HermesError, LiveError, OSError, ValueError):
            self.look(time.time_ns())
            for notice in self._detect.notices(end=True):
                self._tell(notice, time.time_ns())
            self._numbers()
        self._analyses.close(end)
        for known in self._ranks.values():
            known.reader.close()
        self._ranks.clear()
        if self._lock is not None:
            self._lock.close()
