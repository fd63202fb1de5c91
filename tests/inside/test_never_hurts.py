"""The job runs and ends as it would without Hermes, whatever happens to disks, clocks, watchers and containers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.inside.conftest import Column, Place
from tests.inside.launch.conftest import beside
from tests.inside.test_monitor import loop
from tests.inside.test_profile import HERMES
from tests.patience import PATIENCE_S, until
from tests.skips import NOT_ROOT, needs_root

from hermes.inside.wire.control import Control
from hermes.inside.wire.recovery import clean, recover
from hermes.inside.wire.rundir import running

pytestmark = pytest.mark.live

SEVEN = """import sys, time
import hermes.inside as capture
capture.start()
for _ in range(300):
    time.sleep(0.002)
    capture.step()
sys.exit(7)
"""


def run(place: Place, script: str = SEVEN, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HERMES, "run", *options, "--", sys.executable, "-c", script], cwd=place.folder,
        env=place.environment | environment, text=True, capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if os.geteuid() != 0 or not made or made.returncode:
        pytest.skip(NOT_ROOT)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_changes_no_exit_code(place: Place, small_disk: Path) -> None:
    done = run(place, HERMES_RUN_DIR=str(small_disk / "jobs"))
    assert done.returncode == 7, done.stderr
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, bytes(4096))
    os.close(filler)
    done = run(place, HERMES_RUN_DIR=str(small_disk / "jobs"))
    assert done.returncode == 7, done.stderr


def test_a_run_directory_that_cannot_be_made_changes_no_exit_code(place: Place) -> None:
    (place.folder / "file").write_text("")
    done = run(place, HERMES_RUN_DIR=str(place.folder / "file" / "jobs"))
    assert done.returncode == 7
    assert done.stderr.startswith("hermes: the job runs without Hermes: ")


def test_a_clock_that_is_set_back_changes_nothing(place: Place, column: Column) -> None:
    """By a day, in the job, a quarter of a second after it began."""
    (place.folder / "clock").mkdir()
    (place.folder / "clock" / "sitecustomize.py").write_text(
        textwrap.dedent("""
            import time
            began, real, real_ns = time.monotonic(), time.time, time.time_ns
            back = lambda: 86_400 if time.monotonic() - began > 0.25 else 0
            time.time = lambda: real() - back()
            time.time_ns = lambda: real_ns() - back() * 10**9
        """)
    )
    path = os.pathsep.join([str(place.folder / "clock"), place.environment["PYTHONPATH"]])
    done = run(place, PYTHONPATH=path)
    assert done.returncode == 7, done.stderr
    (job,) = place.jobs()
    assert column(job.log_path(0), "step") == list(range(1, 300))


def test_a_watcher_that_is_killed_changes_nothing_and_is_told(place: Place, column: Column) -> None:
    script = SEVEN.replace("range(300)", "range(3000)")
    process = subprocess.Popen(
        [sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", script], cwd=place.folder,
        env=place.environment, text=True, stderr=subprocess.PIPE,
    )  # fmt: skip
    (watcher,) = until(lambda: beside("hermes.jobs.watcher_process", place.root), PATIENCE_S)
    os.kill(watcher, signal.SIGKILL)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 7
    assert "the watcher has ended (-9), the job goes on" in said
    (job,) = place.jobs()
    assert column(job.log_path(0), "step") == list(range(1, 3000))


def test_what_a_step_is_is_said_and_a_job_without_one_is_told_what_to_write(place: Place) -> None:
    # It is said where a look, one a second, meets the training before it ends, and before its first capture: with so
    # few steps there is none.
    longer = SEVEN.replace("range(300)", "range(100)").replace("0.002", "0.05")
    assert "hermes: a step is each call of hermes.inside.step()\n" in run(place, longer).stderr
    said = run(place, "raise SystemExit(3)")
    assert said.returncode == 3
    assert said.stderr.count("no step was found") == 1
    assert "hermes.inside.step()" in said.stderr
    alone = place.python("import hermes.inside\nhermes.inside.start()\n")
    assert alone.stderr.count("no step was found") == 1


def test_where_capture_is_off_nothing_is_said_of_steps(place: Place) -> None:
    """The ring has no room: that shows once the rank has its place in the job."""
    full = "import os, time\ndef full(*_): raise OSError(28, 'No space left on device')\n"
    ring = full + "os.posix_fallocate = full\n" + SEVEN.replace("range(300)", "range(3000)")
    said = run(place, ring)
    assert said.returncode == 7
    lines = [line for line in said.stderr.splitlines() if "run directory" not in line]
    assert len(lines) == 1, said.stderr
    assert lines[0].startswith("hermes: capture is off: ")


# The disk of the run directory stands still from some moment on: whoever asks it waits.
_FROZEN = """
    import os, sys, threading, time
    import hermes.inside as capture
    import hermes.inside.agent
    import hermes.inside.monitor.write_step_log as written
    import hermes.inside.wire.steplog as steplog
    import hermes.inside.wire.rundir as rundir
    frozen = threading.Event()
    real = steplog.os.write
    def stuck(*arguments):
        if frozen.is_set():
            time.sleep(3600)
        return real(*arguments)
    steplog.LogWriter.append = lambda self, records: stuck(self._file.number, records)
    written.MOST = 1000 * 256
    {first}
    capture.start()
    longest = 0
    for number in range(6000):
        if number == 500:
            frozen.set()
        start = time.perf_counter()
        capture.step()
        longest = max(longest, time.perf_counter() - start)
        time.sleep(0.0005)
    print(longest < 2.5, capture._agent.off)
"""


def test_a_disk_that_freezes_stops_no_step_and_what_it_misses_is_counted(place: Place, column: Column) -> None:
    done = place.python(_FROZEN.format(first=""))
    assert done.stdout == "True False\n", done.stderr
    assert "the disk is slower than the steps" in done.stderr
    # The ring has the latest; those that neither it nor the log has are counted.
    (lost,) = map(int, re.findall(r"hermes: (\d+) records are lost", done.stderr))
    (job,) = place.jobs()
    written = len(column(job.log_path(0), "step"))
    assert lost == 5999 - written - 1024
    assert recover(job) == 1024


def test_a_disk_that_is_frozen_from_the_start_holds_the_first_step_for_a_moment_only(place: Place) -> None:
    done = place.python(_FROZEN.format(first="hermes.inside.agent.clean = lambda *_: time.sleep(3600)"))
    assert done.stdout == "True False\n", done.stderr


def test_a_control_segment_that_is_truncated_kills_no_rank(place: Place) -> None:
    process = place.begin(loop(3000, "time.sleep(0.001)", end="print('done')"))
    until(lambda: [job for job in place.jobs() if running(job)])
    for path in place.memory.iterdir():
        os.truncate(path, 0)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "done\n")
    # All of capture is off when that comes before the first step was counted, else captures alone.
    assert re.fullmatch("hermes: captures? (is|are) off: the control segment was cut off\n", err)


@needs_root
def test_containers_that_share_memory_and_not_process_numbers_leave_each_other_alone(
    place: Place, column: Column
) -> None:
    script = textwrap.dedent(loop(4000, "time.sleep(0.001)", end="print('done')"))
    inner = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", script], env=place.environment,
        cwd=place.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    (job,) = until(lambda: [job for job in place.jobs() if running(job)], PATIENCE_S)
    # Its number means another process here, or none: a sidecar must see it live, and remove nothing.
    assert clean(place.memory) == []
    # The first of its two files is there a moment before the other.
    before = until(lambda: names if len(names := {path.name for path in place.memory.iterdir()}) == 2 else None, 60)
    assert place.python(loop(3)).stderr == ""
    assert before <= {path.name for path in place.memory.iterdir()}
    control = Control.attach(job.segment, job=job.id)
    assert [slot.alive for slot in control.slots()] == [True]
    control.close()
    out, err = inner.communicate(timeout=PATIENCE_S)
    assert (out, err) == ("done\n", "")
    assert column(job.log_path(0), "step") == list(range(1, 4000))


def test_who_closes_all_low_descriptors_does_not_find_ours_among_them(place: Place) -> None:
    body = "os.closerange(3, 256) if number == 10 else None; open(f'mine-{number}', 'w').close()"
    done = place.python(loop(60, body, end="print('done')"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert all(path.stat().st_size == 0 for path in place.folder.glob("mine-*"))


# A job, as a daemon does, closes all that is open and opens files of its own, under all numbers that it may have.
_CLOSES_ALL = """
    import os, resource
    def close_all():
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        os.closerange(3, 1024)
        own = [os.open(f"mine-{number}", os.O_CREAT | os.O_RDWR) for number in range(1000)]
        # It has some left to open others with.
        [os.close(number) for number in own[LEFT]]
        return {number: os.fstat(number) for number in own if number not in own[LEFT]}
    def same(own):
        return all(os.path.samestat(os.fstat(number), facts) for number, facts in own.items())
"""


def closes_all(left: str) -> str:
    return _CLOSES_ALL.replace("LEFT", left)


@pytest.mark.parametrize("left", ["-60:", "100:300", "300:"])
def test_who_closes_all_descriptors_finds_nothing_of_ours_in_its_own_files(
    place: Place, column: Column, left: str
) -> None:
    body = "own = close_all() if number == 100 else own; time.sleep(0.005)"
    script = loop(600, body, end="capture.stop(); print(same(own))").replace("for number", "own = {}\n    for number")
    done = place.python(closes_all(left) + script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert all(path.stat().st_size == 0 for path in place.folder.glob("mine-*"))
    (job,) = place.jobs()
    assert column(job.log_path(0), "step") == list(range(1, 600))
    assert list(place.memory.iterdir()) == []


@pytest.mark.usefixtures("with_torch")
@pytest.mark.parametrize("what", ["statistics", "tensors"])
def test_who_closes_all_descriptors_is_recorded_to_the_end(place: Place, what: str) -> None:
    script = (
        closes_all("-60:")
        + """
    import torch
    torch.set_num_threads(1)
    from hermes.inside.record import start
    start.boot()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        loss = model(torch.ones(3, 4)).sum()
        own = close_all() if step == 2 else own if step else {}
        loss.backward()
        optimizer.step()
    print(same(own))
    """
    )
    options = {"out": "recording", "steps": "0-5", "what": what}
    done = place.python(script, HERMES_RECORD=json.dumps(options))
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert all(path.stat().st_size == 0 for path in place.folder.glob("mine-*"))
    lines = [json.loads(line) for line in (place.folder / "recording/rank0/index.jsonl").read_text().splitlines()]
    assert [line["end"] for line in lines if "end" in line] == list(range(6))
    assert not any(line.get("dropped") for line in lines)


def test_a_lock_outlives_no_process_that_forked(place: Place) -> None:
    """A child that lives on, as a worker of a data loader may, holds nothing of its parent."""
    script = loop(20, end="child = os.fork(); child or time.sleep(120); print(child, flush=True); os._exit(0)")
    process = place.begin(script)
    assert process.stdout
    assert process.stderr
    child = int(process.stdout.readline())
    process.wait(PATIENCE_S)
    (job,) = place.jobs()
    # The child lets go as it begins, which may be after its parent has ended.
    until(lambda: not running(job), 60)
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
