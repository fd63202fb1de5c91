"""`hermes run` becomes its command: status, signals, descriptors and terminal are what they are without Hermes."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.inside.launch.conftest import Launcher, children
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.live

_AT_ONCE = 16


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _after(process: subprocess.Popen[str], number: int) -> tuple[str, int]:
    """What a signal does to the process, which is a `sleep`: it is stopped or killed by some signal, or goes on."""
    os.kill(process.pid, number)
    end = time.monotonic() + (0.3 if number in (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH) else 20)
    while time.monotonic() < end:
        pid, status = os.waitpid(process.pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            os.kill(process.pid, signal.SIGCONT)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return "stopped", os.WSTOPSIG(status)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return "ended", process.returncode
        time.sleep(0.01)
    process.kill()
    process.wait()
    return "goes on", 0


def test_every_signal_does_to_hermes_run_what_it_does_to_the_command(launcher: Launcher) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    numbers = sorted(signal.valid_signals())
    seen: dict[bool, dict[int, tuple[str, int]]] = {}
    for bare in (True, False):
        seen[bare] = {}
        for at in range(0, len(numbers), _AT_ONCE):
            begun = {
                number: launcher.begin("sleep", "600", bare=bare, options=("--no-watch",), stderr=subprocess.DEVNULL)
                for number in numbers[at : at + _AT_ONCE]
            }
            for number, process in begun.items():
                until(lambda process=process: _program(process.pid) == "sleep", PATIENCE_S)
                seen[bare][number] = _after(process, number)
                assert process.stdout
                process.stdout.close()
    assert len(numbers) > 60
    assert seen[False] == seen[True]
    assert seen[True][signal.SIGKILL] == ("ended", -9)
    # Of a group of processes that nobody would continue, the kernel stops none by SIGTSTP.
    assert seen[True][signal.SIGSTOP] == ("stopped", signal.SIGSTOP)


@pytest.mark.parametrize(
    "line",
    [
        "RUN true", "RUN false", "RUN sh -c 'exit 255'", "RUN sh -c 'kill -9 $$'", "RUN sh -c 'kill -INT $$'",
        "RUN sh -c 'kill -PIPE $$'", "RUN sh -c 'kill -XCPU $$'", "RUN no-such-command", "RUN ./no-such-file",
        "RUN ./plain", "RUN /", "RUN ./odd", "RUN ./headless", "ulimit -f 1; RUN dd if=/dev/zero of=big bs=1M count=1",
    ],
)  # fmt: skip
def test_a_shell_sees_the_status_of_the_command(launcher: Launcher, line: str) -> None:
    (launcher.place.folder / "plain").write_text("no program\n")
    (launcher.place.folder / "odd").write_text("#!/no/such/interpreter\n")
    (launcher.place.folder / "headless").write_text("exit 5\n")
    for name in ("odd", "headless"):
        (launcher.place.folder / name).chmod(0o755)
    (launcher.place.folder / "jobs").mkdir(mode=0o700)
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("needs bash")
    line = f"exec {shell} -c {_quoted(line + '; echo status $?')}"
    bare, ours = launcher.shell(line, bare=True), launcher.shell(line)
    assert ours.stdout == bare.stdout, ours.stderr
    assert "status" in ours.stdout


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_stay_closed_and_change_no_status(launcher: Launcher, closed: str) -> None:
    (launcher.place.folder / "look").write_text(
        "#!/bin/sh\nfor fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && readlink /proc/$$/fd/$fd; "
        'done | grep -v "pipe:\\|/look" > "$TOLD"\nexit 9\n'
    )
    (launcher.place.folder / "look").chmod(0o755)
    told = {}
    for bare in (True, False):
        done = launcher.shell(
            f"RUN ./look {closed}; echo $? > status", bare=bare, TOLD=str(launcher.place.folder / "t")
        )
        assert done.stdout == ""
        assert (launcher.place.folder / "status").read_text() == "9\n", done.stderr
        told[bare] = (launcher.place.folder / "t").read_text()
    assert told[False] == told[True]


def test_a_job_starts_and_ends_as_ever_where_there_is_no_null_device(launcher: Launcher) -> None:
    launcher.script.write_text("import os\nos.devnull = '/no/null'\n" + launcher.script.read_text())
    done = launcher.shell("RUN sh -c 'exit 5'; echo status $? >&2")
    assert "status 5" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hermes: run directory: " in done.stderr


def test_a_run_directory_that_is_gone_at_the_end_is_told_once_for_each_loss(launcher: Launcher) -> None:
    done = launcher.shell("RUN sh -c 'rm -r \"$HERMES_JOB\"; exit 5'; echo status $? >&2")
    assert "status 5" in done.stderr
    assert "Traceback" not in done.stderr
    assert "is not saved" in done.stderr


def test_the_command_is_no_child_and_has_none_and_keeps_its_group(launcher: Launcher) -> None:
    process = launcher.begin("sleep", "600")
    until(lambda: _program(process.pid) == "sleep", PATIENCE_S)
    try:
        assert children(process.pid) == []
        assert os.getpgid(process.pid) == os.getpgid(0)
        assert os.getsid(process.pid) == os.getsid(0)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert re.findall(r"Sig(?:Blk|Ign):\s+0*(\w+)", status) == _masks()
        assert sorted(path.name for path in Path(f"/proc/{process.pid}/fd").iterdir()) == ["0", "1", "2"]
    finally:
        process.kill()
        process.communicate()


def _masks() -> list[str]:
    bare = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"Sig(?:Blk|Ign):\s+0*(\w+)", bare)


def test_locks_and_pipes_that_the_caller_handed_on_end_with_the_command(launcher: Launcher) -> None:
    here, there = os.pipe()
    process = launcher.begin("sleep", "600", stderr=subprocess.DEVNULL, pass_fds=(there,))
    os.close(there)
    until(lambda: _program(process.pid) == "sleep", PATIENCE_S)
    process.kill()
    process.communicate()
    assert select.select([here], [], [], 5)[0]
    assert os.read(here, 1) == b""
    os.close(here)


class Terminal:
    """An interactive shell in a terminal."""

    def __init__(self, launcher: Launcher) -> None:
        self.seen = ""
        pid, self._master = pty.fork()
        if pid == 0:
            # A run of tests in the background ignores these keys, and all that it starts would, too.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            os.chdir(launcher.place.folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**launcher.place.environment, "PS1": "$ "})
        self._pid = pid

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, pattern: str, seconds: float = PATIENCE_S) -> str:
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            assert left > 0, self.seen
            if select.select([self._master], [], [], left)[0]:
                self.seen += os.read(self._master, 65536).decode()
        self.seen = self.seen[found.end() :]
        return found[0]

    def press(self, key: str, pattern: str) -> str:
        """Type a key until it shows: on a busy machine it may come before there is a job in the foreground."""
        for _ in range(PATIENCE_S // 20):
            self.type(key)
            with contextlib.suppress(AssertionError):
                return self.expect(pattern, 20)
        pytest.fail(self.seen)

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._master)


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("bare", [True, False])
def test_a_terminal_stops_continues_interrupts_and_quits_it(launcher: Launcher, bare: bool) -> None:
    # A key that is typed before the job goes on again reaches nobody.
    script = (
        "import signal, time\nsignal.signal(signal.SIGCONT, lambda *_: print('job', 'on', flush=True))\n"
        "print('job', 'up', flush=True)\nfor _ in range(600): time.sleep(1)"
    )
    (launcher.place.folder / "job.py").write_text(script)
    run = " ".join([*([] if bare else [*launcher.run, "--"]), sys.executable, "job.py"])
    terminal = Terminal(launcher)
    try:
        for key, status in (("\x03", 130), ("\x1c", 131)):
            terminal.type(f"{run}\n")
            terminal.expect("job up")
            terminal.press("\x1a", "Stopped")
            terminal.type("echo status $?\n")
            terminal.expect(r"status 148")
            terminal.type("jobs\n")
            terminal.expect(r"\[1\]\+ +Stopped")
            terminal.type("fg\n")
            terminal.expect("job on")
            terminal.type(key)
            terminal.type("echo ended $?\n")
            assert terminal.expect(r"ended \d+") == f"ended {status}"
        terminal.type(f"{run} &\n")
        terminal.expect("job up")
        terminal.type("kill %1; wait %1; echo ended $?\n")
        assert terminal.expect(r"ended \d+") == "ended 143"
    finally:
        terminal.close()
