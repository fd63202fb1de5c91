"""Runs beside a job: prints what counts as a step, passes on the watcher's lines, and ends when the job ends.

This process never accesses the disk, so it notices the end of the job at once, and releases the job's stderr within a
bound.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hermes.inside.launch.detached_process import nowhere
from hermes.inside.launch.isolated import isolated
from hermes.inside.launch.write_stderr import tell, write
from hermes.inside.warn_once import OFF
from hermes.inside.wire import process
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.errors import LiveError

NO_STEP_S = 120.0
"""Seconds without a step, at the start or after a restart, before Hermes says that no step was found."""
LOOK_S = 1.0
AFTER_S = 2.0
"""Seconds that a pipe on stderr stays open after the job's end: its reader waits for the end of the pipe."""
LAST_S = 75.0
"""Seconds that the watcher may run after the job, in the background: the watcher's analyses have a minute."""

_ANEW = (
    f"no rank trains any more since {NO_STEP_S:.0f} s, and the command goes on: where it has started ranks anew, "
    "none of them has come to its first step"
)


def main() -> None:
    """Watch until the job has ended, then finish the remaining work."""
    about = json.loads(sys.argv[1])
    hurry: list[int] = []
    # A batch system that ends a job signals every process to end: finish the remaining work when the job has ended.
    signal.signal(signal.SIGTERM, lambda number, _frame: hurry.append(number))
    control = _kept(about)
    steps = Steps(control, tell, time.monotonic)
    followed = Followed(about)
    watcher = followed.start(_watcher(about)) if about["watch"] else None
    while not followed.ended(LOOK_S):
        steps.look()
        if watcher is not None and watcher.over:
            tell(f"the watcher has ended ({watcher.status}), the job goes on")
            watcher = None
    steps.look(over=True)
    _finish(about, followed, watcher, control, lambda: bool(hurry))


def _kept(about: Mapping[str, Any]) -> Control | None:
    """The control segment of the job, kept while this process lives."""
    try:
        control = Control.attach(Path(about["segment"]), job=about["job"])
        control.keep()
    except (LiveError, OSError):
        return None
    return control


def _watcher(about: Mapping[str, Any]) -> list[str]:
    acts = "capture" if about["capture"] else "look"
    return isolated("hermes.jobs.watcher_process:main", about["preset"], acts, about["folder"])


def _finish(
    about: Mapping[str, Any], followed: Followed, watcher: Child | None, control: Control | None,
    hurry: Callable[[], bool],
) -> None:  # fmt: skip
    """Finish after the job: save the ranks' records, let the watcher end, and remove the shared memory."""
    began = time.monotonic()
    save = followed.start(_last("save", about["folder"], about["snapshot"]))
    if watcher is not None:
        watcher.ask_to_end()

    def remove() -> None:
        if control is not None:
            control.close()
        followed.start(_last("remove", about["folder"]))

    short = _is_pipe()
    followed.settle(lambda: began + (AFTER_S if short or hurry() else LAST_S))
    early = not followed.children
    if early:
        remove()
        followed.settle(lambda: began + AFTER_S)
    if save is not None and not save.over:
        tell(
            "what the ranks left in memory is not saved yet: the disk does not answer; the next `hermes run` will do it"
        )
    # Whoever reads the job's stderr waits for the end of stderr.
    nothing = nowhere()
    os.dup2(nothing, 2)
    os.close(nothing)
    followed.settle(lambda: began + (AFTER_S if hurry() else LAST_S))
    followed.kill()
    if not early:
        remove()
        end = time.monotonic() + AFTER_S
        followed.settle(lambda: end)


def _last(*words: str) -> list[str]:
    return isolated("hermes.inside.launch.end_job:main", *words, libraries=False)


def _is_pipe() -> bool:
    try:
        mode = os.fstat(2).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class Steps:
    """A reporter of steps: it prints what counts as a step of the job, or that no step was found."""

    def __init__(self, control: Control | None, say: Callable[[str], object], now: Callable[[], float]) -> None:
        self._control, self._say, self._now = control, say, now
        self._stated = self._warned = False
        self._since = now()
        """The time since which no living rank has ended a step."""

    def look(self, *, over: bool = False) -> None:
        """Check the ranks once; `over` is true when the job has ended."""
        # In this order: a process withdraws its description of steps before it says that it cannot be watched.
        off = self._is_off()
        try:
            slots = self._control.slots() if self._control else []
        except OSError:
            slots = []
        counted = [slot for slot in slots if slot.state != "none" or slot.text or not off]
        if counted and not self._stated:
            self._stated, self._warned, self._since = True, False, self._now()
            if counted[0].state == "none" and counted[0].text:
                self._say(f"a step is {counted[0].text}")
        if any(slot.alive for slot in slots):
            self._since, self._warned = self._now(), False
        late = self._now() - self._since > NO_STEP_S
        if self._warned or not (late or over) or (over and self._stated):
            return
        # A job that loads for a long time may still reach its first step.
        self._warned = True
        if not off:
            self._say(_ANEW if self._stated else NO_STEP)

    def _is_off(self) -> bool:
        """Whether a process of the job has written why it cannot be watched."""
        folder = self._control.about.get("folder") if self._control else None
        return isinstance(folder, str) and Path(folder, OFF).exists()


class Child:
    """A process of Hermes beside the job, whose output is passed on to stderr."""

    def __init__(self, words: list[str]) -> None:
        # The child's arrays are small: threads for numerical libraries would only take memory.
        environment: dict[str, str] = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        assert self._process.stderr is not None
        self.descriptor = self._process.stderr.fileno()
        os.set_blocking(self.descriptor, False)
        self._rest = b""
        self.over = False
        self.status: int | None = None

    def lines(self) -> list[bytes]:
        """The lines that the child has printed since the last call; sets `over` when the child has ended."""
        try:
            raw = os.read(self.descriptor, 65536)
        except BlockingIOError:
            return []
        if not raw:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.status = self._process.wait(AFTER_S)
            self.over = True
        *lines, self._rest = (self._rest + raw).split(b"\n")
        return lines

    def ask_to_end(self) -> None:
        """Ask the child to end, by closing its stdin."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def kill(self) -> None:
        """Kill the child, even if it is stopped."""
        with contextlib.suppress(OSError):
            self._process.kill()


class Followed:
    """The job, whose end is waited for, and the children of Hermes beside the job."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._pid, self._started, self._end = about["pid"], about["started"], about["end"]
        self.children: list[Child] = []
        self._dropped = 0
        self._over = False

    def start(self, words: list[str]) -> Child | None:
        """Start a child process that runs these words; None, after one line on stderr, when no process can be
        started."""
        try:
            child = Child(words)
        except OSError as refused:
            tell(f"the job is not watched: {refused}")
            return None
        self.children.append(child)
        return child

    def ended(self, patience_s: float) -> bool:
        """Whether the job ends within `patience_s` seconds; meanwhile the children's lines are passed on."""
        end = time.monotonic() + patience_s
        while (left := end - time.monotonic()) > 0:
            if self.hand_on(left if self._end >= 0 else min(left, 0.1)):
                self._over = True
                return True
        return False

    def hand_on(self, patience_s: float) -> bool:
        """Wait up to `patience_s` seconds for a line of a child and pass lines on; returns whether the job has
        ended."""
        ready = select.poll()
        by_number = {child.descriptor: child for child in self.children}
        for number in by_number:
            ready.register(number, select.POLLIN)
        if self._end >= 0 and not self._over:
            ready.register(self._end, select.POLLIN)
        told = ready.poll(max(int(patience_s * 1000), 1))
        for number, _ in told:
            if number in by_number:
                self._hand_on(by_number[number])
        if self._end >= 0 or self._over:
            return self._over or any(number == self._end for number, _ in told)
        return not process.alive(self._pid, self._started)

    def _hand_on(self, child: Child) -> None:
        for line in child.lines():
            if self._dropped and tell(f"{self._dropped} lines of Hermes are lost: stderr took none"):
                self._dropped = 0
            self._dropped += not write(line)
        if child.over:
            self.children.remove(child)

    def settle(self, end: Callable[[], float]) -> None:
        """Wait for the children until the time that `end` returns."""
        while self.children and time.monotonic() < end():
            self.hand_on(0.1)

    def kill(self) -> None:
        """Kill the child processes of Hermes that still run."""
        for child in self.children:
            child.kill()
        self.children.clear()
