"""Nothing of Hermes holds a job: neither before it starts, nor when it ends, whatever stands still."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.inside.launch.conftest import Launcher, beside, watching
from tests.patience import PATIENCE_S, until

from hermes.inside.launch.companion import AFTER_S
from hermes.inside.wire.steplog import read_rows

pytestmark = pytest.mark.live

SLACK_S = 8.0
"""A machine under load starts two processes of Python in that time."""


def _ends_after(process: subprocess.Popen[str]) -> tuple[float, str]:
    """How long after the end of the process its stderr ends, and what stood there."""
    assert process.wait(PATIENCE_S) is not None
    began = time.monotonic()
    _, said = process.communicate(timeout=PATIENCE_S)
    return time.monotonic() - began, said


def test_a_watcher_that_is_stopped_holds_neither_the_job_nor_who_reads_its_output(launcher: Launcher) -> None:
    process = launcher.begin("sh", "-c", "read line; exit 7", stdin=subprocess.PIPE)
    watcher = watching(launcher.place.root)
    os.kill(watcher, signal.SIGSTOP)
    assert process.stdin
    process.stdin.write("end\n")
    process.stdin.flush()
    seconds, said = _ends_after(process)
    assert process.returncode == 7
    assert seconds < AFTER_S + SLACK_S
    assert "hermes: run directory: " in said
    os.kill(watcher, signal.SIGKILL)


def test_a_watcher_that_is_killed_is_told(launcher: Launcher) -> None:
    process = launcher.begin("sh", "-c", "read line; exit 7", stdin=subprocess.PIPE)
    os.kill(watching(launcher.place.root), signal.SIGKILL)
    assert process.stderr
    until(lambda: "the watcher has ended (-9), the job goes on" in process.stderr.readline(), PATIENCE_S)
    process.communicate("end\n", timeout=PATIENCE_S)
    assert process.returncode == 7


def test_a_stderr_that_nobody_reads_does_not_hold_the_start(launcher: Launcher) -> None:
    here, there = os.pipe()
    fcntl.fcntl(there, fcntl.F_SETPIPE_SZ, 4096)
    os.write(there, bytes(4096))
    process = launcher.begin("sh", "-c", "exit 7", stderr=there)
    os.close(there)
    began = time.monotonic()
    assert process.wait(PATIENCE_S) == 7
    assert time.monotonic() - began < SLACK_S
    process.communicate()
    os.close(here)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which can be frozen: whoever writes on it waits."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    image.touch()
    os.truncate(image, 64 << 20)
    folder.mkdir()
    tools = [
        shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") for name in ("mkfs.ext4", "mount", "fsfreeze")
    ]
    made = all(tools) and os.geteuid() == 0
    if made:
        made = all(
            subprocess.run(command, capture_output=True, check=False).returncode == 0
            for command in ([tools[0], "-q", str(image)], [tools[1], "-o", "loop", str(image), str(folder)])
        )
    if not made:
        pytest.skip("only root may mount a disk")
    (folder / "jobs").mkdir(mode=0o700)
    yield folder
    subprocess.run([str(tools[2]), "-u", str(folder)], capture_output=True, check=False)
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def _freeze(disk: Path, how: str = "-f") -> None:
    subprocess.run([str(shutil.which("fsfreeze", path="/usr/sbin:/sbin:/usr/bin")), how, str(disk)], check=True)


def test_a_disk_that_is_frozen_holds_the_start_for_a_bound_time_and_the_end_not_at_all(
    launcher: Launcher, disk: Path
) -> None:
    environment = launcher.place.environment | {"HERMES_RUN_DIR": str(disk / "jobs")}
    _freeze(disk)
    began = time.monotonic()
    process = launcher.begin("sh", "-c", "exit 7", env=environment)
    _, said = _ends_after(process)
    assert process.returncode == 7
    assert time.monotonic() - began < 5 + AFTER_S + SLACK_S
    assert said == "hermes: the job runs without Hermes: the disk does not answer\n"
    _freeze(disk, "-u")
    process = launcher.begin("sh", "-c", "read line; exit 7", env=environment, stdin=subprocess.PIPE)
    until(lambda: beside("hermes.jobs.watcher_process", disk), PATIENCE_S)
    _freeze(disk)
    assert process.stdin
    process.stdin.write("end\n")
    process.stdin.flush()
    seconds, said = _ends_after(process)
    assert process.returncode == 7
    assert seconds < AFTER_S + SLACK_S
    _freeze(disk, "-u")
    # What stood still goes on, and nothing is left.
    until(lambda: not beside("hermes", disk), PATIENCE_S)


def test_records_that_the_disk_did_not_take_are_counted_and_said(launcher: Launcher) -> None:
    """The log ends, the ring has the latest: what lies between was in the memory of the rank, and is lost."""
    script = """
import os, signal, time
import hermes.inside as capture
from hermes.inside.wire.steplog import LogWriter
real, taken = LogWriter.append, []
def slow(self, records):
    if taken:
        time.sleep(3600)
    taken.append(1)
    real(self, records)
LogWriter.append = slow
capture.start()
for number in range(3000):
    capture.step()
capture._agent._monitor._write()
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = launcher.begin(sys.executable, "-c", script)
    _, said = _ends_after(process)
    assert process.returncode == -9
    (job,) = launcher.place.jobs()
    numbers = [row[0] for row in read_rows(job.log_path(0)) if row]
    lost = 2999 - len(numbers)
    assert lost > 1000
    assert f"hermes: {lost} records of rank 0 are lost: the disk was too slow\n" in said
