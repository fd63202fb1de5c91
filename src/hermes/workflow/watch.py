"""Use case: follow a running job; notice, capture, have the capture analysed beside it, and say what was found."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hermes.base.errors import HermesError
from hermes.diagnose.live import Cause
from hermes.fleet.alarm import Alarm, Detector, KSigmaSettings, Policy
from hermes.fleet.detect import detector_of, work_of
from hermes.fleet.ksigma import KSigma
from hermes.fleet.steps import Steps, steps_of
from hermes.fleet.straggler import straggler
from hermes.live.errors import LiveError
from hermes.live.record import AT
from hermes.live.ring import RingReader
from hermes.live.rundir import Job, rings
from hermes.workflow import thresholds
from hermes.workflow.aside import analysis, outcome
from hermes.workflow.captures import Asked, Wish, answers, ask, automatic, finished, write_manifest
from hermes.workflow.steplogs import cause_of

_KEPT = 2000
_STRAGGLER_EVERY_NS = 5_000_000_000
_LONGEST_ANALYSIS_S = 900
EVENTS = "events.jsonl"
_LAST_EVENTS = 65_536


@dataclass(slots=True, kw_only=True)
class _Rank:
    """What is known of one process of a rank."""

    reader: RingReader
    detector: Detector
    rows: deque[tuple[int, ...]]

    def steps(self, rank: int) -> Steps:
        return steps_of(rank, list(self.rows), self.reader.about)


class Watcher:
    """Looks at one job whenever it is called. Of several watchers of a job the first acts, the others look on."""

    def __init__(
        self, job: Job, *, preset: str, environment: Mapping[str, str], capture: bool, say: Callable[[str], None],
        policy: Policy | None = None, wish: Wish | None = None, acts: bool = True,
    ) -> None:  # fmt: skip
        """`acts` False only looks on and says what it sees, whoever else watches.

        Raises `HermesError` for a preset that is none.
        """
        detector_of(preset, 0, environment)
        self.job = job
        self._preset, self._environment, self._capture, self._say = preset, environment, capture, say
        self._acts = acts
        self._policy = policy or Policy()
        self._wish = wish or Wish(steps=2, level="light", automatic=True, options={})
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._asked: Asked | None = None
        self._analyses: list[tuple[subprocess.Popen[bytes], Path, float]] = []
        self._straggler: int | None = None
        self._straggler_ns = 0
        self._lock: IO[bytes] | None = None
        self._broken = False
        self._thresholds = thresholds.Thresholds()
        self._thresholds_at = (0, 0)
        self.alarms: list[tuple[Alarm, Cause | None]] = []
        self.findings: list[str] = []

    def look_safely(self) -> None:
        """`look`, but a failure ends the watching and not the job."""
        if self._broken:
            return
        try:
            self.look(time.time_ns())
        except (HermesError, LiveError, OSError, ValueError) as failed:
            self._broken = True
            self._say(f"the watcher ends here, the job goes on: {failed}")

    def look(self, now_ns: int) -> None:
        """Read what is new, and act on it."""
        self._adopt()
        self._join()
        for (rank, _), known in self._ranks.items():
            new = known.reader.new()
            known.rows.extend(new)
            self._feed(rank, known, new, now_ns)
        if now_ns - self._straggler_ns > _STRAGGLER_EVERY_NS:
            self._straggler_ns = now_ns
            self._compare(now_ns)
        self._follow()
        self._collect()

    def steps(self) -> list[Steps]:
        """The latest steps of every rank, as far as they are kept here."""
        return [known.steps(rank) for (rank, _), known in sorted(self._ranks.items()) if known.rows]

    def scores(self) -> dict[int, float]:
        """Rank to the score of its last step in the preset `ksigma`, once it has a baseline."""
        found = {
            rank: known.detector.score(known.rows[-1][AT["wall_ns"]])
            for (rank, _), known in self._ranks.items()
            if isinstance(known.detector, KSigma) and known.rows
        }
        return {rank: score for rank, score in found.items() if score is not None}

    @property
    def state(self) -> str:
        """`baseline` until the preset `ksigma` has one for every rank, `at risk` once a capture was made by itself."""
        made = [known.detector for known in self._ranks.values()]
        if automatic(self.job) and self._asked is None:
            return "at risk"
        return "baseline" if any(isinstance(one, KSigma) and not one.armed for one in made) else "watching"

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
            self._say(f"the thresholds stay as they are: {damaged.what}")
            return
        for known in self._ranks.values():
            self._set_thresholds(known.detector)
        if self.acting:
            other = "" if self._preset == "ksigma" else f", which the preset {self._preset} does not use"
            self._say(f"thresholds of ksigma: {self._thresholds.text()}{other}")
            self._note("thresholds", k=self._thresholds.k, consecutive=self._thresholds.consecutive)

    def _set_thresholds(self, detector: Detector) -> None:
        if isinstance(detector, KSigma):
            detector.change(self._thresholds.on(KSigmaSettings.of(self._environment)))

    def _join(self) -> None:
        for rank, pid, path in rings(self.job):
            if (rank, pid) in self._ranks:
                continue
            with contextlib.suppress(LiveError):
                made = detector_of(self._preset, rank, self._environment)
                self._set_thresholds(made)
                # A process that follows one of the same rank begins a series of its own.
                for old in [key for key in self._ranks if key[0] == rank]:
                    self._ranks.pop(old).reader.close()
                self._ranks[(rank, pid)] = _Rank(reader=RingReader(path), detector=made, rows=deque(maxlen=_KEPT))

    def _feed(self, rank: int, known: _Rank, new: list[tuple[int, ...]], now_ns: int) -> None:
        if not new:
            return
        work = work_of(known.steps(rank))[-len(new) :].tolist()
        for row, amount in zip(new, work, strict=True):
            alarm = known.detector.feed(row[AT["step"]], row[AT["wall_ns"]], amount, row[AT["flags"]])
            if alarm is not None:
                self._alarm(alarm, cause_of(known.steps(rank), alarm), now_ns)

    def _alarm(self, alarm: Alarm, cause: Cause | None, now_ns: int) -> None:
        self.alarms.append((alarm, cause))
        if self._acts and not self.acting:
            return
        change = f"{alarm.before_ns / 1e6:.2f} -> {alarm.after_ns / 1e6:.2f} ms a step ({alarm.ratio - 1:+.0%})"
        why = f"; {cause.share:.0%} of it is {cause.what} ({cause.name})" if cause else ""
        self._say(f"rank {alarm.rank} is slower since step {alarm.since}: {change}{why}")
        if not self.acting:
            return
        self._note(
            "alarm", rank=alarm.rank, change=alarm.kind, since=alarm.since, step=alarm.step,
            before_ns=alarm.before_ns, after_ns=alarm.after_ns, cause=cause.name if cause else None,
            cost_ns=cause.cost_ns if cause else None, do=cause.do if cause else None,
        )  # fmt: skip
        if self._capture and self._asked is None:
            self._start(f"{alarm.kind} since step {alarm.since}, rank {alarm.rank}", now_ns)

    def _start(self, reason: str, now_ns: int) -> None:
        self._policy.restore(automatic(self.job))
        refusal = self._policy.refusal(now_ns)
        if refusal:
            self._say(f"no capture: {refusal}")
            return
        wish = Wish(
            steps=self._wish.steps, level=self._wish.level, reason=reason, automatic=True, options=self._wish.options
        )
        try:
            self._asked = ask(self.job, wish, now_ns=now_ns)
        except HermesError as refused:
            self._say(f"no capture: {refused.what}")
            return
        self._policy.started(now_ns)
        self._say(f"capturing {wish.steps} steps from step {self._asked.request.start_step} on")

    def _compare(self, now_ns: int) -> None:
        late = straggler([steps.part(max(len(steps) - 200, 0), len(steps)) for steps in self.steps()])
        rank = late.rank if late else None
        if late is not None and rank != self._straggler and self.acting:
            text = f"{late.own_ns / 1e6:.1f} ms of its own in a step, the others {late.others_ns / 1e6:.1f} ms"
            self._say(f"the other ranks wait for rank {late.rank}: {text}")
            self._note("straggler", rank=late.rank, own_ns=late.own_ns, others_ns=late.others_ns)
            if self._capture and self._asked is None:
                self._start(f"the others wait for rank {late.rank}", now_ns)
        self._straggler = rank

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
        self._note("capture", folder=str(asked.folder), states={str(rank): state for rank, state in states.items()})
        bad = [f"rank {rank} {slot.state}: {slot.text}" for rank, slot in said.items() if slot.state != "finished"]
        if bad:
            self._say(f"the capture is not whole: {'; '.join(bad)[:300]}")
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
                if time.monotonic() - began > _LONGEST_ANALYSIS_S:
                    child.kill()
                continue
            self._analyses.remove(entry)
            text = note_finding(self.job, child, out)
            self.findings.append(text)
            self._say(f"finding: {text}")
            self._say(f"report: {out / 'report.html'}")

    def _note(self, kind: str, **facts: object) -> None:
        _note(self.job, kind, **facts)

    def close(self, patience_s: float = 60.0) -> None:
        """The job has ended: let analyses under way come to their end, then let go."""
        end = time.monotonic() + patience_s
        with contextlib.suppress(HermesError, LiveError, OSError, ValueError):
            self.look(time.time_ns())
            while self._analyses and time.monotonic() < end:
                time.sleep(0.1)
                self._collect()
        for child, _, _ in self._analyses:
            child.kill()
            child.wait()
        for known in self._ranks.values():
            known.reader.close()
        self._ranks.clear()
        if self._lock is not None:
            self._lock.close()


def begin_analysis(job: Job, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Analyse a capture beside the job. Returns the process and where its report goes. Raises `OSError`."""
    out = job.folder / "reports" / folder.name
    return analysis(folder, out), out


def note_finding(job: Job, child: subprocess.Popen[bytes], out: Path) -> str:
    """What the analysis that has ended found, in a line; noted among the events of the job."""
    text = outcome(child, out)
    _note(job, "finding", text=text, report=str(out / "report.html"))
    return text


def analysed(job: Job, folder: Path) -> None:
    """Analyse a capture, wait for it, and note what was found. Raises `OSError`."""
    child, out = begin_analysis(job, folder)
    try:
        child.wait(_LONGEST_ANALYSIS_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    note_finding(job, child, out)


def _note(job: Job, kind: str, **facts: object) -> None:
    line = json.dumps({"time_ns": time.time_ns(), "kind": kind, **facts}) + "\n"
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
