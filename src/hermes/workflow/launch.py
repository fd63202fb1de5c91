"""Use case: start a command so that the trainings in it are watched, and look after it without standing in its way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import hermes.capture
from hermes.base.errors import HermesError, InputError
from hermes.live import process
from hermes.live.errors import LiveError
from hermes.live.rundir import Job, clean, default_root, enter, new_id, recover, remove_memory, running, shared_memory

_HOME = Path(hermes.capture.__file__).resolve().parents[2]
_BOOT = _HOME / "hermes" / "capture" / "boot"
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_DEAF = {"-E", "-I"}


def make_job(command: Sequence[str], name: str, environment: Mapping[str, str]) -> Job:
    """A run directory for that command, owned by this process; what crashed jobs left in memory is removed first.

    Raises `HermesError`.
    """
    root = default_root(environment)
    pid, started = process.me()
    try:
        clean(root, shared_memory(environment))
        job_id = new_id(name or name_of(command), pid=pid, started=started)
        return enter(root, job_id, command=tuple(command), owner=(pid, started), environment=environment)
    except LiveError as refused:
        raise HermesError(str(refused), where=str(root), hint="set HERMES_RUN_DIR to a folder of yours") from refused


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
        return "this Python ignores its environment (-E or -I): add `import hermes.capture; hermes.capture.start()`"
    return ""


def supervise(
    command: Sequence[str], job: Job, environment: Mapping[str, str], *, watch: Callable[[], None], pause_s: float
) -> int:
    """Run the command to its end, calling `watch` now and then; returns its exit code, 128 + n for signal n.

    Signals that ask to end are handed on; an interrupt from the terminal reaches the command by itself. Raises
    `InputError` when the command cannot be started.
    """
    try:
        child = subprocess.Popen(command, env=environment_of(job, environment))
    except OSError as refused:
        raise InputError(f"{command[0]} cannot be started ({refused.strerror})", where=str(command[0])) from refused
    with _handing_on(child):
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(pause_s)
                break
            watch()
    return 128 - code if code < 0 else code


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
