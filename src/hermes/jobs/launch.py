"""Use case: start a command so that the trainings in it are watched, and return its exit code whatever happens to us.

What asks a disk, and the watcher, are apart from the process that waits for the command: a full or frozen disk, a
watcher that dies or a folder that cannot be had end the watching with one line, and never the job.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

import hermes.inside.wire
from hermes.base.errors import InputError
from hermes.inside.wire import process
from hermes.inside.wire.beside import Beside
from hermes.inside.wire.control import NO_STEP, Control
from hermes.inside.wire.errors import LiveError
from hermes.inside.wire.recovery import clean, recover, remove_memory
from hermes.inside.wire.rundir import Job, default_root, enter, memory_folders, moved, new_id, running

T = TypeVar("T")
_HOME = Path(hermes.inside.wire.__file__).resolve().parents[3]
_BOOT = _HOME / "hermes" / "inside" / "boot"
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_DEAF = {"-E", "-I"}
DISK_S = 10.0
"""So long the disk of the run directory is waited for, before the command starts and after it has ended."""
_NO_STEP_S = 120.0
_LAST_S = 75.0
"""So long the watcher may take after the job: its analyses have a minute."""


def make_job(command: Sequence[str], name: str, environment: Mapping[str, str]) -> Job:
    """A run directory for that command, owned by this process; what crashed jobs left in memory is removed first.

    Raises `LiveError`, or `OSError`.
    """
    root = default_root(environment)
    pid, started = process.me()
    clean(*memory_folders(environment))
    job_id = new_id(name or name_of(command), pid=pid, started=started)
    return enter(root, job_id, command=tuple(command), owner=(pid, started), environment=environment)


def in_time(call: Callable[[], T], patience_s: float, what: str, say: Callable[[str], None]) -> T | None:
    """What the call returns; None, and a line, when it fails or takes longer than that."""
    try:
        begun = Beside(call)
        if begun.done(patience_s):
            return begun.result()
        say(f"{what}: the disk does not answer")
    except Exception as failed:  # noqa: BLE001 - the job is not ours to end
        say(f"{what}: {failed}")
    return None


def name_of(command: Sequence[str]) -> str:
    """The script or module that a command trains with, without its folder and ending: what a job is called."""
    script = next((Path(word).stem for word in command[1:] if word.endswith(".py")), None)
    after = [command[at + 1] for at, word in enumerate(command[:-1]) if word == "-m"]
    return script or (after[-1].rpartition(".")[2] if after else Path(command[0]).stem)


def environment_of(job: Job, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every Python started below waits for a training to begin."""
    paths = [str(_BOOT), *filter(None, [environment.get("PYTHONPATH")])]
    added = {"PYTHONPATH": os.pathsep.join(paths), "HERMES_JOB": str(job.folder), "HERMES_HOME": str(_HOME)}
    return {**environment, **added}


def doubts(command: Sequence[str]) -> str:
    """Why a command may not be watched, in a line; empty when nothing speaks against it."""
    flags = {word for word in command[1:4] if word.startswith("-")}
    if Path(command[0]).name.startswith("python") and flags & _DEAF:
        return "this Python ignores its environment (-E or -I): add `import hermes.inside; hermes.inside.start()`"
    return ""


def supervise(
    command: Sequence[str], job: Job | None, environment: Mapping[str, str], *, watcher: Sequence[str] | None,
    say: Callable[[str], None],
) -> int:  # fmt: skip
    """Run the command to its end; returns its exit code, 128 + n for signal n.

    Signals that ask to end are handed on; an interrupt from the terminal reaches the command by itself. Beside it runs
    the command `watcher`, with the run directory behind it, until its standard input ends. Without a
    job the command runs as it is. Raises `InputError` when the command cannot be started.
    """
    if job is not None and (elsewhere := moved(job, environment)):
        say(elsewhere)
    try:
        child = subprocess.Popen(command, env=environment if job is None else environment_of(job, environment))
    except OSError as refused:
        raise InputError(f"{command[0]} cannot be started ({refused.strerror})", where=str(command[0])) from refused
    with _handing_on(child):
        beside = Companion(job, watcher, say) if job is not None else None
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(beside.pause_s if beside else None)
                break
            if beside is not None:
                beside.look()
        if beside is not None:
            beside.end()
    return 128 - code if code < 0 else code


class Companion:
    """What goes on beside the command: the watcher's process, and what is to be said of the job's steps."""

    def __init__(self, job: Job, watcher: Sequence[str] | None, say: Callable[[str], None]) -> None:
        """Nothing raises; what fails is said. `pause_s` is how often it wants to `look`: None when never again."""
        self.pause_s: float | None = 1.0
        self._job, self._say, self._began = job, say, time.monotonic()
        self._stated = self._warned = False
        self._control: Control | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(LiveError, OSError):
            self._control = Control.attach(job.segment, job=job.id)
            self._control.keep()
        if watcher is not None:
            try:
                # Its arrays are small: threads for them would only take memory.
                own = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
                self._watcher = subprocess.Popen([*watcher, str(job.folder)], stdin=subprocess.PIPE, env=own)
            except OSError as refused:
                say(f"the job is not watched: {refused}")

    def look(self) -> None:
        """Say what a step of the job is once there is one, or that there is none after two minutes; and if nobody
        watches any more."""
        if not self._stated:
            self._state(over=time.monotonic() - self._began > _NO_STEP_S)
        watcher = self._watcher
        if watcher is not None and watcher.poll() is not None:
            self._watcher = None
            self._say(f"the watcher has ended ({watcher.returncode}), the job goes on")
        self.pause_s = None if self._stated and self._watcher is None else 1.0

    def _state(self, *, over: bool) -> None:
        try:
            slots = self._control.slots() if self._control else []
        except OSError:
            slots = []
        if slots:
            self._stated = True
            if slots[0].state == "none" and slots[0].text:
                self._say(f"a step is {slots[0].text}")
        elif over and not self._warned:
            # A job that loads for long may still come to its first step.
            self._warned = True
            self._say(NO_STEP)

    def end(self) -> None:
        """The command has ended: let the watcher come to its end, and remove what it has shared."""
        watcher = self._watcher
        if watcher is not None:
            with contextlib.suppress(OSError):
                watcher.stdin.close() if watcher.stdin else None
            try:
                watcher.wait(_LAST_S)
            except subprocess.TimeoutExpired:
                watcher.kill()
        in_time(self._last, DISK_S, "what the ranks have left in memory is not saved", self._say)

    def _last(self) -> None:
        if not self._stated:
            self._state(over=True)
        if self._control is not None:
            self._control.close()
        end(self._job)


@contextlib.contextmanager
def _handing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    def hand_on(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end(job: Job) -> None:
    """The command has ended: save what its ranks could not write themselves, and remove the shared memory.

    Ranks that outlive a killed launcher keep theirs, and whoever comes next saves what they leave.
    """
    recover(job)
    if not running(job):
        remove_memory(job)
