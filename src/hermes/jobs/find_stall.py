"""Describes a job that makes no progress: since when, where ranks stand, the collective a rank missed, the advice."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.base.message import Message
from hermes.inside.wire import process
from hermes.inside.wire.control import LONGEST_NS, Control
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.ring import LATE_NS
from hermes.inside.wire.rundir import Job
from hermes.jobs.messages import (
    DO_DUMP_STACK,
    DO_READ_STACKS,
    do_look_at_absent,
    do_restart,
    no_progress,
    stands,
)
from hermes.jobs.stall_limits import ALARM
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Blame, Finding
from hermes.model.leaf import Risk

_LONGEST_AGE_NS = 86_400 * 10**9
_MOST_ASKED = 16
_MOST_PLACES = 4
_PATIENCE_S = 2.0
_LONGEST_STACK = 65_536
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,9}) in (?P<name>\S{1,200})')
_SPY_FRAME = re.compile(r"^\s+(?P<name>\S{1,200}) \((?P<file>[^()]{1,500}):(?P<line>\d{1,9})\)")
LIBRARIES = ("/hermes/inside/", "/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")
_COLLECTIVES = ("distributed_c10d.py", "torch/nn/parallel/distributed.py")


@dataclass(slots=True, kw_only=True)
class RankProgress:
    """The progress of one rank: its process, its last step, when that was seen to end, and how long its steps take
    (ns).

    `about` is the description in its ring: `started` and `space` in it tell whether `pid` is a process of this host.
    """

    pid: int
    alive: bool
    step: int
    seen_ns: int
    usual_ns: int
    longest_ns: int
    about: Mapping[str, object]

    @property
    def furthest(self) -> int:
        """The latest step that may have ended: the log may lack the latest of several short steps."""
        return self.step + LATE_NS // max(self.usual_ns, 1)

    @property
    def reachable(self) -> bool:
        """Whether the rank's process has the same number here: in another container it has another number, or none."""
        started, here = self.about.get("started"), self.about.get("space") == process.pid_namespace()
        return here and isinstance(started, int) and process.alive(self.pid, started)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """The place where a rank stands: the awaited collective, if any, and the innermost line of the job's own code."""

    collective: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A standstill: no step has ended for `seconds`. `gone` are ranks whose process ended, `behind` ranks on an earlier
    step."""

    seconds: float
    step: int
    ranks: tuple[int, ...]
    gone: tuple[int, ...]
    behind: tuple[int, ...]
    places: Mapping[int, RankPlace]

    @property
    def absent(self) -> tuple[int, ...]:
        """Ranks that stand elsewhere while others wait in a collective."""
        waiting = {rank for rank, place in self.places.items() if place.collective}
        return tuple(sorted(self.places.keys() - waiting)) if waiting else ()

    @property
    def waited_ns(self) -> int:
        """Nanoseconds since the last step of the job ended."""
        return round(self.seconds * 1e9)

    @property
    def message(self) -> Message:
        """The message on the standstill: its length, and where ranks stand."""
        return no_progress(
            waited=self.waited_ns, last=self.step, gone=self.gone, behind=() if self.gone else self.behind,
            places=self._where(),
        )  # fmt: skip

    def _where(self) -> list[Message]:
        by_place: dict[RankPlace, list[int]] = {}
        for rank, place in sorted(self.places.items()):
            by_place.setdefault(place, []).append(rank)
        return [
            stands(ranks=ranks, line=place.line, collective=place.collective)
            for place, ranks in list(by_place.items())[:_MOST_PLACES]
        ]

    @property
    def remedy(self) -> Message:
        """The advice for a job that makes no progress."""
        if self.gone:
            return do_restart(gone=self.gone)
        if self.absent:
            names = sorted({place.collective for place in self.places.values() if place.collective})
            return do_look_at_absent(absent=self.absent, collectives=names)
        return DO_READ_STACKS if self.places else DO_DUMP_STACK

    def finding(self) -> Finding:
        """The standstill of a job as a finding."""
        lines = tuple(dict.fromkeys(place.line for _, place in sorted(self.places.items())))
        blamed = self.gone or self.absent
        return Finding(
            code="no progress", about=Risk.STALL, message=self.message, ranks=self.ranks, steps=(self.step,),
            lines=lines, blames=tuple(map(Blame.of_rank, blamed)), confidence=confidence("jobs.stuck"),
            actions=(Action(title=self.remedy, do="", verify="", risk="", source=""),),
        )  # fmt: skip


def _capturing(job: Job) -> bool:
    """Whether a rank records a capture at this moment: its profiler may hold a step for as long as it wants."""
    try:
        control = Control.attach(job.segment, job=job.id)
    except LiveError:
        return False
    try:
        return any(slot.alive and slot.state == "started" for slot in control.slots())
    finally:
        control.close()


def seen_ns(end_ns: int, now_ns: int) -> int:
    """The end of a step that is seen for the first time: as its record says, unless a clock was set."""
    return end_ns if 0 <= now_ns - end_ns < _LONGEST_AGE_NS else now_ns


def find_stall_of_job(
    job: Job, ranks: Mapping[int, RankProgress], now_ns: int, *, ask: Callable[[Job, int, RankProgress], str]
) -> Stall | None:
    """The standstill of a job, or None while a rank makes progress; `ask` returns the stacks of a rank."""
    still = [ALARM.over(now_ns - one.seen_ns, one.usual_ns, one.longest_ns) for one in ranks.values()]
    if not still or not all(still):
        return None
    still_ns = now_ns - max(one.seen_ns for one in ranks.values())
    if still_ns < LONGEST_NS and _capturing(job):
        # A profiler that starts or collects holds its step, and lets it go by itself.
        return None
    last = max(one.step for one in ranks.values())
    gone = [rank for rank, one in ranks.items() if not one.alive]
    behind = [rank for rank, one in ranks.items() if one.furthest < last]
    # Where many ranks are stuck, the ranks that others wait for say the most.
    wanted = sorted(ranks.keys() - set(gone), key=lambda rank: (rank not in behind, rank))[:_MOST_ASKED]
    places = {rank: found for rank in wanted if (found := place_of(ask(job, rank, ranks[rank])))}
    return Stall(
        seconds=still_ns / 1e9, step=last, ranks=tuple(sorted(ranks)),
        gone=tuple(sorted(gone)), behind=tuple(sorted(behind)), places=places,
    )  # fmt: skip


def stacks(job: Job, rank: int, one: RankProgress) -> str:
    """The stacks of a process: from its own handler, else from py-spy where that is installed and allowed; else
    empty."""
    offered = one.about.get("stacks")
    if isinstance(offered, dict):
        number, name = offered.get("signal"), f"stacks-rank{rank}.txt"
        if isinstance(number, int) and _handled(one, number):
            return _by_signal(job.folder / name, one.pid, number)
    spy = shutil.which("py-spy")
    if spy is None or not one.reachable:
        return ""
    try:
        done = subprocess.run([spy, "dump", "--pid", str(one.pid)], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:_LONGEST_STACK].decode("utf-8", "replace")


def no_stacks(_job: Job, _rank: int, _one: RankProgress) -> str:
    """No stacks: another watcher asks the process for its stacks."""
    return ""


def _handled(one: RankProgress, number: int) -> bool:
    """Whether the rank's process has a handler for the signal: without a handler the signal would end the process."""
    if not one.reachable or not 34 <= number <= 64:
        return False
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{one.pid}/status").read_text("ascii", "replace")
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(caught >> (number - 1) & 1)
    return False


def _by_signal(path: Path, pid: int, number: int) -> str:
    try:
        before = path.stat().st_size
        os.kill(pid, number)
        end, size = time.monotonic() + _PATIENCE_S, before
        while time.monotonic() < end:
            time.sleep(0.02)
            size, last = path.stat().st_size, size
            if size > before and size == last:
                break
        with path.open("rb") as file:
            file.seek(before)
            return file.read(_LONGEST_STACK).decode("utf-8", "replace")
    except OSError:
        return ""


def place_of(text: str) -> RankPlace | None:
    """The place of the thread that runs the job's main module, innermost first; None when no stack shows it."""
    threads: list[list[re.Match[str]]] = [[]]
    for line in text.splitlines():
        frame = _FRAME.match(line) or _SPY_FRAME.match(line)
        if frame:
            threads[-1].append(frame)
        elif threads[-1]:
            threads.append([])
    known = [thread for thread in threads if thread]
    if not known:
        return None
    thread = next((one for one in known if one[-1]["name"] in ("<module>", "_run_code")), known[0])
    # A collective calls helpers of its own file: the outermost frame there is the function that the job called.
    inside = [frame for frame in thread if frame["file"].endswith(_COLLECTIVES)]
    own = next((frame for frame in thread if not any(part in frame["file"] for part in LIBRARIES)), thread[0])
    name = next((frame["name"] for frame in reversed(inside) if frame["name"] != "wrapper"), "")
    return RankPlace(collective=name, line=f"{Path(own['file']).name}:{own['line']} ({own['name']})")
