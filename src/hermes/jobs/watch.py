"""Use case: follow a running job; notice, capture, have the capture analysed beside it, and say what was found."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from hermes.base.errors import HermesError
from hermes.base.message import Message, Text
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.record import AT
from hermes.inside.wire.ring import RingReader
from hermes.inside.wire.rundir import Job, rings
from hermes.jobs import change_alarm_thresholds as thresholds
from hermes.jobs import messages
from hermes.jobs.aside import LONGEST_S, analysis, outcome, stop
from hermes.jobs.captures import Asked, Wish, answers, ask, automatic, finished, said_by, set_aside, write_manifest
from hermes.jobs.detect.alarm import Alarm, Detector, Policy
from hermes.jobs.detect.alarm_thresholds import KSigmaSettings
from hermes.jobs.detect.causes import Cause
from hermes.jobs.detect.detect import detector_of
from hermes.jobs.detect.job import KEPT, JobDetector, Notice
from hermes.jobs.detect.ksigma import KSigma
from hermes.jobs.detect.numerics import Numerics
from hermes.jobs.detect.read_step_logs import Steps, steps_of
from hermes.jobs.events import event, note
from hermes.jobs.messages import JobState
from hermes.jobs.notices import facts_of, finding_of
from hermes.jobs.reasons import reason
from hermes.jobs.stuck import LEAST_NS, Progress, Stall, seen_ns, stacks, stall

_IDLE_NS = 10_000_000_000
_LATEST = 200
_MOST_RANKS = 4096


@dataclass(slots=True, kw_only=True)
class _Rank:
    """What is known of one process of a rank."""

    reader: RingReader
    pid: int
    rows: deque[tuple[int, ...]]
    seen_ns: int

    def steps(self, rank: int) -> Steps:
        return steps_of(rank, list(self.rows), self.reader.about)

    def progress(self) -> Progress:
        """How far it is, for whoever asks whether it is stuck."""
        rows = list(self.rows)[-_LATEST:]
        walls = sorted(row[AT["wall_ns"]] for row in rows)
        return Progress(
            pid=self.pid, alive=self.reader.alive, step=rows[-1][AT["step"]], seen_ns=self.seen_ns,
            usual_ns=walls[len(walls) // 2], longest_ns=walls[-1], about=self.reader.about,
        )  # fmt: skip


class Watcher:
    """Looks at one job whenever it is called. Of several watchers of a job the first acts, the others look on."""

    def __init__(
        self, job: Job, *, preset: str, environment: Mapping[str, str], capture: bool, say: Callable[[Text], object],
        policy: Policy | None = None, wish: Wish | None = None, acts: bool = True,
        noted: Callable[[Mapping[str, object]], None] | None = None, kept: int = KEPT, most_ranks: int = _MOST_RANKS,
    ) -> None:  # fmt: skip
        """`acts` False only looks on and says what it sees, whoever else watches. `noted` is handed each event.

        The latest `kept` steps of a rank are held in memory, of at most so many ranks. Raises `HermesError` for a
        preset that is none.
        """
        detector_of(preset, 0, environment)
        self.job, self._kept, self._most_ranks = job, kept, most_ranks
        self._preset, self._environment, self._capture, self._say = preset, environment, capture, say
        self._acts = acts
        self._noted = noted
        self._policy = policy or Policy()
        self._refused_after = -1
        self._wish = wish or Wish(steps=2, level="light", automatic=True, options={})
        self._ranks: dict[int, _Rank] = {}
        self._detect = JobDetector(self._detector, kept)
        self.numerics = Numerics(job.folder)
        self.stall: Stall | None = None
        self._asked: Asked | None = None
        self._analyses: list[tuple[subprocess.Popen[bytes], Path, float]] = []
        self._lock: IO[bytes] | None = None
        self._broken = False
        self._thresholds = thresholds.Thresholds()
        self._thresholds_at = (0, 0)
        self.alarms: list[tuple[Alarm, Cause | None]] = []
        self.findings: list[Message] = []

    def look_safely(self) -> None:
        """`look`, but a failure ends the watching and not the job."""
        if self._broken:
            return
        try:
            self.look(time.time_ns())
        except (HermesError, LiveError, OSError, ValueError) as failed:
            self._broken = True
            self._say(messages.watcher_ends(why=reason(failed)))

    def look(self, now_ns: int) -> None:
        """Read what is new, and act on it."""
        self._adopt()
        self._join(now_ns)
        for rank, known in self._ranks.items():
            self._read(rank, known, now_ns)
        for notice in self._detect.notices(idle=self._idle(now_ns)):
            self._tell(notice, now_ns)
        self._numbers()
        self._progress(now_ns)
        self._follow()
        self._collect()

    def steps(self) -> list[Steps]:
        """The latest steps of every rank, as far as they are kept here."""
        return [known.steps(rank) for rank, known in sorted(self._ranks.items()) if known.rows]

    def scores(self) -> dict[int, float]:
        """Rank to the score of its last step in the preset `ksigma`, once it has a baseline."""
        rows = {rank: known.rows for rank, known in self._ranks.items()}
        found = {
            rank: detector.score(rows[rank][-1][AT["wall_ns"]])
            for rank, detector in self._detect.detectors().items()
            if isinstance(detector, KSigma) and rows.get(rank)
        }
        return {rank: score for rank, score in found.items() if score is not None}

    @property
    def state(self) -> JobState:
        """`no progress` while no step ends, `baseline` until the preset `ksigma` has one for every rank, `at risk` once
        a capture was made by itself."""
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
                file = (self.job.folder / ".watcher").open("ab")
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    file.close()
                    return False
                self._lock = file
        return self._lock is not None

    def _adopt(self) -> None:
        """Take up thresholds that were changed since the last look; a damaged file changes nothing."""
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
                # What is no ring of ours takes no place of one that is.
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
        """Whether another ring of the rank is of a later process: the known one has ended."""
        return not known.reader.alive and not known.reader.reads(path)

    def _read(self, rank: int, known: _Rank, now_ns: int) -> None:
        new = known.reader.new()
        if not new:
            return
        known.seen_ns = now_ns if known.rows else seen_ns(new[-1][AT["end_ns"]], now_ns)
        known.rows.extend(new)
        self._detect.add(rank, new, known.reader.about)

    def _idle(self, now_ns: int) -> frozenset[int]:
        """Ranks that the others are not waited for: they end no step any more, or are gone."""
        return frozenset(
            rank
            for rank, known in self._ranks.items()
            if now_ns - known.seen_ns > max(_IDLE_NS, 3 * known.rows[-1][AT["wall_ns"]] if known.rows else 0)
        )

    def _progress(self, now_ns: int) -> None:
        """Say once that no step ends any more, where the ranks stand, and once that they go on."""
        ranks = {rank: known for rank, known in self._ranks.items() if known.rows}
        if self.stall is None and not any(known.reader.alive for known in ranks.values()):
            # Nobody waits: the training is over, or its launcher starts it anew.
            return
        if not ranks or any(now_ns - known.seen_ns < LEAST_NS for known in ranks.values()):
            self._goes_on()
            return
        asked = stacks if self.stall is None and self.acting else _no_stacks
        found = stall(self.job, {rank: known.progress() for rank, known in ranks.items()}, now_ns, ask=asked)
        if found is None:
            self._goes_on()
        elif self.stall is None:
            self.stall = found
            if not self._acts or self.acting:
                self._say(found.message)
            if self.acting:
                self._note("no progress", found.message, found.remedy, step=found.step, ranks=list(found.ranks))
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
        if self._capture and self._asked is None and notice.kind in ("alarm", "again", "straggler"):
            self._start(found.message, now_ns, quiet=notice.kind == "again")

    def _numbers(self) -> None:
        """Say what went wrong with loss and gradients: no profile tells why, so none is captured."""
        for wrong in self.numerics.look(list(self._ranks)):
            if not self._acts or self.acting:
                self._say(wrong.message)
            if self.acting:
                self._note("numbers", wrong.message, wrong.remedy, step=wrong.step, rank=wrong.rank, fault=wrong.kind)

    def _start(self, why: Text, now_ns: int, *, quiet: bool = False) -> None:
        self._policy.restore(automatic(self.job))
        refusal = self._policy.refusal(now_ns)
        if refusal:
            # Said once for each capture that is in the way, and not with each alarm.
            if not quiet and self._refused_after != self._policy.captures:
                self._refused_after = self._policy.captures
                self._say(messages.no_capture(why=refusal))
            return
        wish = Wish(
            steps=self._wish.steps, level=self._wish.level, reason=why, automatic=True, options=self._wish.options
        )
        try:
            self._asked = ask(self.job, wish, now_ns=now_ns)
        except HermesError as refused:
            self._say(messages.no_capture(why=refused.what))
            return
        self._policy.started(now_ns)
        self._say(messages.capturing(n=wish.steps, first=self._asked.request.start_step))

    def _follow(self) -> None:
        asked = self._asked
        if asked is None:
            return
        said = answers(asked)
        if said and not finished(said) and time.time_ns() < asked.request.deadline_ns:
            return
        self._asked = None
        write_manifest(asked, said.values())
        states = {rank: slot.state for rank, slot in said.items()}
        if {*states.values()} and {*states.values()} <= {"refused", "late"}:
            asked = set_aside(asked)
            self._policy.refused(time.time_ns())
        told = messages.captured(answers=said_by(said.values()), folder=str(asked.folder))
        self._note("capture", told, folder=str(asked.folder), states={str(rank): one for rank, one in states.items()})
        if bad := [slot for slot in said.values() if slot.state != "finished"]:
            self._say(messages.capture_not_whole(answers=said_by(bad)))
        if "finished" in states.values():
            self._analyse(asked.folder)

    def _analyse(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            child, out = begin_analysis(self.job, folder)
            self._analyses.append((child, out, time.monotonic()))

    def _collect(self) -> None:
        for entry in list(self._analyses):
            child, out, began = entry
            if child.poll() is None:
                if time.monotonic() - began > LONGEST_S:
                    stop(child)
                continue
            self._analyses.remove(entry)
            found = outcome(child, out)
            self._note("finding", found, report=str(out / "report.html"))
            self.findings.append(found)
            self._say(messages.finding(found=found))
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
        """The job has ended: let analyses under way come to their end, then let go."""
        end = time.monotonic() + patience_s
        with contextlib.suppress(HermesError, LiveError, OSError, ValueError):
            self.look(time.time_ns())
            for notice in self._detect.notices(end=True):
                self._tell(notice, time.time_ns())
            self._numbers()
            while self._analyses and time.monotonic() < end:
                time.sleep(0.1)
                self._collect()
        for child, out, _ in self._analyses:
            stop(child)
            self._say(messages.finding(found=note_finding(self.job, child, out)))
        for known in self._ranks.values():
            known.reader.close()
        self._ranks.clear()
        if self._lock is not None:
            self._lock.close()


def _no_stacks(_job: Job, _rank: int, _one: Progress) -> str:
    """Another watcher asks for them."""
    return ""


def begin_analysis(job: Job, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Analyse a capture beside the job. Returns the process and where its report goes. Raises `OSError`."""
    out = job.folder / "reports" / folder.name
    return analysis(folder, out), out


def note_finding(job: Job, child: subprocess.Popen[bytes], out: Path) -> Message:
    """What the analysis that has ended found; noted among the events of the job."""
    found = outcome(child, out)
    note(job, event("finding", found, report=str(out / "report.html")))
    return found


def analysed(job: Job, folder: Path) -> None:
    """Analyse a capture, wait for it, and note what was found. Raises `OSError`."""
    child, out = begin_analysis(job, folder)
    try:
        child.wait(LONGEST_S)
    except subprocess.TimeoutExpired:
        stop(child)
    note_finding(job, child, out)
