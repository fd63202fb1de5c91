"""A job that makes no progress: since when, where each rank stands, which collective one did not enter, what to do."""

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
from hermes.knowledge.confidence import confidence
from hermes.model.finding import Action, Blame, Finding
from hermes.model.leaf import Risk

LEAST_NS = 10_000_000_000
_TIMES_USUAL = 20
_TIMES_LONGEST = 2
_LONGEST_AGE_NS = 86_400 * 10**9
_MOST_ASKED = 16
_MOST_PLACES = 4
_PATIENCE_S = 2.0
_LONGEST_STACK = 65_536
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,9}) in (?P<name>\S{1,200})')
_SPY_FRAME = re.compile(r"^\s+(?P<name>\S{1,200}) \((?P<file>[^()]{1,500}):(?P<line>\d{1,9})\)")
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")
_COLLECTIVES = ("distributed_c10d.py", "torch/nn/parallel/distributed.py")


@dataclass(slots=True, kw_only=True)
class Progress:
    """One rank: its process, its last step, when that was seen to end, and how long its steps take (ns).

    `about` is what its ring says: there `started` and `space` tell whether `pid` is a number of a process here.
    """

    pid: int
    alive: bool
    step: int
    seen_ns: int
    usual_ns: int
    longest_ns: int
    about: Mapping[str, object]

    @property
    def patience_ns(self) -> int:
        """How long no step may end before that is no progress."""
        return max(LEAST_NS, _TIMES_USUAL * self.usual_ns, _TIMES_LONGEST * self.longest_ns)

    @property
    def furthest(self) -> int:
        """The step that it may have ended: of short ones the latest may not be written."""
        return self.step + LATE_NS // max(self.usual_ns, 1)

    @property
    def reachable(self) -> bool:
        """Whether this very process has its number here too: in another container it has another, or none."""
        started, here = self.about.get("started"), self.about.get("space") == process.space()
        return here and isinstance(started, int) and process.alive(self.pid, started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a rank stands: the collective that it waits in, if any, and the innermost line of the job's own code."""

    collective: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """No step has ended for `seconds`. `gone` are ranks whose process ended, `behind` those on an earlier step."""

    seconds: float
    step: int
    ranks: tuple[int, ...]
    gone: tuple[int, ...]
    behind: tuple[int, ...]
    places: Mapping[int, Place]

    @property
    def absent(self) -> tuple[int, ...]:
        """Ranks that stand elsewhere while others wait in a collective."""
        waiting = {rank for rank, place in self.places.items() if place.collective}
        return tuple(sorted(self.places.keys() - waiting)) if waiting else ()

    @property
    def waited_ns(self) -> int:
        """Since when no step has ended."""
        return round(self.seconds * 1e9)

    @property
    def message(self) -> Message:
        """Since when, and who stands where."""
        return no_progress(
            waited=self.waited_ns, last=self.step, gone=self.gone, behind=() if self.gone else self.behind,
            places=self._where(),
        )  # fmt: skip

    def _where(self) -> list[Message]:
        by_place: dict[Place, list[int]] = {}
        for rank, place in sorted(self.places.items()):
            by_place.setdefault(place, []).append(rank)
        return [
            stands(ranks=ranks, line=place.line, collective=place.collective)
            for place, ranks in list(by_place.items())[:_MOST_PLACES]
        ]

    @property
    def remedy(self) -> Message:
        """What to do about it."""
        if self.gone:
            return do_restart(gone=self.gone)
        if self.absent:
            names = sorted({place.collective for place in self.places.values() if place.collective})
            return do_look_at_absent(absent=self.absent, collectives=names)
        return DO_READ_STACKS if self.places else DO_DUMP_STACK

    def finding(self) -> Finding:
        """As a finding."""
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
    """When a step ended that is seen for the first time: as its record says, unless a clock was set."""
    return end_ns if 0 <= now_ns - end_ns < _LONGEST_AGE_NS else now_ns


def stall(
    job: Job, ranks: Mapping[int, Progress], now_ns: int, *, ask: Callable[[Job, int, Progress], str]
) -> Stall | None:
    """Whether no rank makes progress; then where they stand, by `ask` for the stacks of one."""
    if not ranks or any(now_ns - one.seen_ns < one.patience_ns for one in ranks.values()):
        return None
    still_ns = now_ns - max(one.seen_ns for one in ranks.values())
    if still_ns < LONGEST_NS and _capturing(job):
        # A profiler that starts or collects holds its step: that ends by itself.
        return None
    last = max(one.step for one in ranks.values())
    gone = [rank for rank, one in ranks.items() if not one.alive]
    behind = [rank for rank, one in ranks.items() if one.furthest < last]
    # Where many are stuck, those that others wait for say the most.
    wanted = sorted(ranks.keys() - set(gone), key=lambda rank: (rank not in behind, rank))[:_MOST_ASKED]
    places = {rank: found for rank in wanted if (found := place_of(ask(job, rank, ranks[rank])))}
    return Stall(
        seconds=still_ns / 1e9, step=last, ranks=tuple(sorted(ranks)),
        gone=tuple(sorted(gone)), behind=tuple(sorted(behind)), places=places,
    )  # fmt: skip


def stacks(job: Job, rank: int, one: Progress) -> str:
    """The stacks of a process: by its own handler, else by py-spy where that is installed and allowed; else nothing."""
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


def _handled(one: Progress, number: int) -> bool:
    """Whether this very process has a handler for the signal: without one it would end it."""
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


def place_of(text: str) -> Place | None:
    """Where the thread stands that runs the job's main module, innermost first; None when no stack says it."""
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
    # A collective calls helpers of its own file: its outermost frame there is what the job called.
    inside = [frame for frame in thread if frame["file"].endswith(_COLLECTIVES)]
    own = next((frame for frame in thread if not any(part in frame["file"] for part in _LIBRARIES)), thread[0])
    name = next((frame["name"] for frame in reversed(inside) if frame["name"] != "wrapper"), "")
    return Place(collective=name, line=f"{Path(own['file']).name}:{own['line']} ({own['name']})")
