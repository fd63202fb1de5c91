"""Starts the command of `hermes run` in place of this process: signals, terminal and exit status are the command's own.

No process of Hermes is a parent of the job, so Hermes cannot hold the job, hide a signal from it or change its exit
status. The watching processes run beside the job, in a session of their own. Only the standard library and
`hermes.inside` are loaded here, so a broken library stops no job.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from hermes.inside.launch.isolated import HOME, isolated
from hermes.inside.launch.write_stderr import tell

DISK_S = 5.0
"""Longest wait in s for the disk of the run directory before the command starts; on a slower disk the command runs
without Hermes."""
_BOOT = os.path.join(HOME, "hermes", "inside", "boot")  # noqa: PTH118 - pathlib is not worth its import here
_NOT_FOUND, _NOT_STARTED, _WRONG = 127, 126, 2
"""Exit statuses that a shell uses: command not found, command cannot be started, and wrong option."""
_DEAF = {"-E", "-I"}


def main(words: Sequence[str]) -> None:
    """Become the command that these words of `hermes run` name; return only if the command line must print an
    explanation."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # From here on an interrupt belongs to the command, not to this Python.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hermes.inside.launch.options import parse

    asked = parse(words)
    if asked is not None:
        become(*asked)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def become(wanted: Mapping[str, str], command: Sequence[str]) -> NoReturn:
    """Run the command in place of this process; `wanted` holds the options of `options.OPTIONS`."""
    _fill_closed()
    snapshot = os.path.abspath(wanted["snapshot"]) if wanted.get("snapshot") else ""  # noqa: PTH100
    if snapshot and os.path.exists(snapshot):  # noqa: PTH110
        _end(f"{snapshot}: the file is there already; give a new name: nothing is written over", _WRONG)
    environment = environment_of(wanted, snapshot, os.environ)
    try:
        program = _program(command[0], environment)
    except OSError as refused:
        _refuse(command[0], refused)
    folder = _watched(wanted, command, environment, snapshot)
    if folder:
        paths = [_BOOT, *filter(None, [environment.get("PYTHONPATH")])]
        environment.update({"PYTHONPATH": os.pathsep.join(paths), "HERMES_JOB": folder, "HERMES_HOME": HOME})
    _become(program, command, environment)


def environment_of(wanted: Mapping[str, str], snapshot: str, given: Mapping[str, str]) -> dict[str, str]:
    """The command's environment, with the options for the ranks added."""
    from hermes.inside.launch.options import OPTIONS

    environment = dict(given)
    for option in OPTIONS:
        if option.variable and wanted.get(option.name):
            environment[option.variable] = wanted[option.name]
    if snapshot:
        from hermes.inside.record.recording_environment import environment as with_snapshot

        environment = with_snapshot(environment, record=None, snapshot=snapshot)
    return environment


def _fill_closed() -> None:
    """Open a placeholder for each closed standard descriptor; the placeholder closes with this program.

    Otherwise the next opened file would become stdin, stdout or stderr of the command.
    """
    from hermes.inside.launch.detached_process import nowhere

    while True:
        descriptor = nowhere()
        if descriptor > 2:
            os.close(descriptor)
            return


def _program(name: str, environment: Mapping[str, str]) -> str:
    """The path of the executable that a shell would start. Raises `OSError`."""
    if os.path.dirname(name):  # noqa: PTH120
        places = [name]
    else:
        places = [os.path.join(folder, name) for folder in os.get_exec_path(environment)]  # noqa: PTH118
    found = errno.ENOENT
    for place in places:
        if os.path.isfile(place) and os.access(place, os.X_OK):  # noqa: PTH113
            return place
        if os.path.exists(place):  # noqa: PTH110
            found = errno.EACCES
    raise OSError(found, os.strerror(found), name)


def _watched(wanted: Mapping[str, str], command: Sequence[str], environment: Mapping[str, str], snapshot: str) -> str:
    """Make the run directory and start the watching processes; returns the run directory, empty when there is none."""
    import json

    from hermes.inside.launch.detached_process import start_detached
    from hermes.inside.launch.make_run_directory import made
    from hermes.inside.wire import process

    pid, started = process.own_identity()
    job = made(command, wanted.get("name", ""), environment, (pid, started), DISK_S)
    if "refused" in job:
        tell(f"the job runs without Hermes: {job['refused']}")
        return ""
    for text in (job["said"], _doubt(command)):
        if text:
            tell(text)
    tell(f"run directory: {job['folder']}")
    end = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    about = {
        **job, "pid": pid, "started": started, "end": end, "snapshot": snapshot, "watch": not wanted.get("no-watch"),
        "preset": wanted.get("preset", "robust"), "capture": not wanted.get("no-capture"),
    }  # fmt: skip
    words = isolated("hermes.inside.launch.companion:main", json.dumps(about), libraries=False)

    def look_on() -> None:
        if end >= 0:
            os.set_inheritable(end, True)
        os.execv(words[0], words)

    try:
        start_detached(look_on, keep=(end,), stderr=True)
    except OSError as refused:
        tell(f"nobody looks on: no process can be started ({refused.strerror})")
    return job["folder"]


def _doubt(command: Sequence[str]) -> str:
    """One line on why a command may not be watched; empty without a reason."""
    flags = {word for word in command[1:4] if word.startswith("-")}
    if os.path.basename(command[0]).startswith("python") and flags & _DEAF:  # noqa: PTH119
        return "this Python ignores its environment (-E or -I): add `import hermes.inside; hermes.inside.start()`"
    return ""


def _become(program: str, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    # Python ignores these two signals; a process that a shell starts does not.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, list(command), environment)
    except OSError as refused:
        if refused.errno != errno.ENOEXEC:
            _refuse(command[0], refused)
    # A script whose first line names no shell, as execvp(3) starts such a script.
    os.execve("/bin/sh", ["sh", program, *command[1:]], environment)


def _refuse(name: str, refused: OSError) -> NoReturn:
    _end(
        f"{name} cannot be started ({refused.strerror})", _NOT_FOUND if refused.errno == errno.ENOENT else _NOT_STARTED
    )


def _end(text: str, status: int) -> NoReturn:
    tell(text)
    os._exit(status)
