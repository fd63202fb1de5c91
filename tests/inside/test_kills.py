"""SIGKILL of a rank, of the watcher, of all, wherever they are in Hermes: only steps of the last 10 ms are lost.

A process that counts the calls in its own Hermes and kills itself at one of them dies at every moment that matters:
half-made segments, torn requests, logs between two files. The next run must find no trace of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from tests.inside.conftest import Column, Place
from tests.inside.launch.conftest import beside
from tests.inside.test_profile import HERMES, begin, stop
from tests.patience import PATIENCE_S, until

from hermes.inside.wire.ring import LATE_NS
from hermes.inside.wire.rundir import Job
from hermes.jobs.request_capture import progress_of_ranks

pytestmark = pytest.mark.live

# Each child trains, and dies at the call of its number; those of hermes only are counted, before and after each.
_SWEEP = """
    import os, signal, sys
    from pathlib import Path
    import hermes.inside as capture
    import hermes.inside.agent
    import hermes.inside.monitor.at_step_end as monitor
    import hermes.inside.wire.steplog as steplog

    # Steps are written at once, as those that take 10 ms are; three or so go into the log together, and a log is full
    # after eight of eleven: one is set aside, and once only.
    monitor.LATE_NS = 0
    monitor._FLUSH_RECORDS = 3
    steplog.LogWriter.__init__.__defaults__ = (4096 + 8 * 256,)

    def train(fatal):
        passed = 0

        def count(frame, _event, _argument):
            nonlocal passed
            if frame.f_globals.get("__name__", "").startswith("hermes."):
                passed += 1
                if passed == fatal:
                    os.kill(os.getpid(), signal.SIGKILL)

        told = os.open(f"told-{os.getpid()}", os.O_CREAT | os.O_WRONLY)
        sys.setprofile(count)
        capture.start()
        for _ in range(12):
            capture.step()
            os.write(told, b".")
        capture.stop()
        sys.setprofile(None)
        return passed

    def child(fatal):
        pid = os.fork()
        if pid == 0:
            Path("calls").write_text(str(train(fatal)))
            os._exit(0)
        return os.waitpid(pid, 0)[1]

    assert child(0) == 0
    calls = int(Path("calls").read_text())
    # The last of them are made only where time was up once more: a counter read, a log written.
    for fatal in range(1, calls - calls // 20, max(calls // NUMBER, 1)):
        # A folder of its own, where only the next run finds what is left.
        os.environ["HERMES_RUN_DIR"] = f"jobs/{fatal}"
        assert os.WTERMSIG(child(fatal)) == signal.SIGKILL, fatal
        assert child(0) == 0
        assert os.listdir(f"{os.environ['HERMES_SHM_DIR']}/hermes-{os.geteuid()}") == [], fatal
    print(calls)
"""


@pytest.mark.slow
def test_a_rank_that_is_killed_at_any_call_loses_the_step_under_way_and_nothing_else(
    place: Place, column: Column
) -> None:
    done = place.python(_SWEEP.replace("NUMBER", "60"))
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 300
    logs = {int(log.parent.name.split("-")[1]): log for log in place.root.rglob("*/steps-rank0.log")}
    told = {int(path.name.partition("-")[2]): path.stat().st_size for path in place.folder.glob("told-*")}
    assert len(told) > 50
    for pid, steps in told.items():
        files = [logs[pid].with_name("steps-rank0.log.1"), logs[pid]] if pid in logs else []
        records = [step for file in files if file.exists() and file.stat().st_size for step in column(file, "step")]
        # The first step has no record, and of the one under way it is open whether it counts.
        assert records in ([*range(1, steps)], [*range(1, steps + 1)]), steps


_TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
told = os.open(f"{sys.argv[1]}-{dist.get_rank()}-{os.getpid()}", os.O_CREAT | os.O_WRONLY)
while True:
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    os.write(told, b".")
    time.sleep(0.002)
"""


def _launch(place: Place, name: str, *before: str) -> subprocess.Popen[str]:
    (place.folder / "train.py").write_text(_TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    return begin(place, *before, *torchrun, name)


def _ranks(place: Place, name: str) -> dict[int, int]:
    """Rank to process, once both have trained for a while."""
    files = list(place.folder.glob(f"{name}-*-*"))
    ready = len(files) == 2 and all(file.stat().st_size > 100 for file in files)
    return {int(file.name.split("-")[1]): int(file.name.split("-")[2]) for file in files} if ready else {}


def _little_is_lost(place: Place, column: Column, job: Job, name: str) -> None:
    for rank in (0, 1):
        (told,) = place.folder.glob(f"{name}-{rank}-*")
        _only_the_latest_are_lost(column(job.log_path(rank), "step"), told.stat().st_size)


def _only_the_latest_are_lost(records: list[int | None], steps: int) -> None:
    """The first step has no record, that under way may count, those of 10 ms may be missing, and each takes 2 ms."""
    assert records == [*range(1, len(records) + 1)]
    assert steps - 1 - LATE_NS // 2_000_000 <= len(records) <= steps


@pytest.mark.smoke
@pytest.mark.usefixtures("with_torch")
def test_when_a_rank_is_killed_the_job_ends_as_it_does_without_us(place: Place, column: Column) -> None:
    bare, ours = _launch(place, "bare"), _launch(place, "ours", sys.executable, "-c", HERMES, "run", "--")
    try:
        for name in ("bare", "ours"):
            os.kill(until(lambda name=name: _ranks(place, name), PATIENCE_S)[1], signal.SIGKILL)
        errors = [process.communicate(timeout=PATIENCE_S)[1] for process in (bare, ours)]
    finally:
        for process in (bare, ours):
            stop(process)
    assert bare.returncode == ours.returncode == 1, errors
    assert all("Signal 9 (SIGKILL)" in error for error in errors)
    (job,) = place.jobs()
    _little_is_lost(place, column, job, "ours")
    until(lambda: not list(place.memory.iterdir()), PATIENCE_S)


@pytest.mark.usefixtures("with_torch")
@pytest.mark.slow
def test_a_job_outlives_its_watcher_and_the_next_run_cleans_up_after_all_were_killed(
    place: Place, column: Column
) -> None:
    watched = _launch(place, "ours", sys.executable, "-c", HERMES, "run", "--")
    ranks: dict[int, int] = {}
    try:
        ranks = until(lambda: _ranks(place, "ours"), PATIENCE_S)
        for pid in beside("hermes.inside.launch.companion", place.root):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not beside("hermes.jobs.watcher_process", place.root), PATIENCE_S)
        (job,) = place.jobs()
        before = progress_of_ranks(job)
        until(lambda: all(progress_of_ranks(job)[rank][0] > before[rank][0] + 50 for rank in (0, 1)))
    finally:
        for pid in (*ranks.values(), watched.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        stop(watched)
    assert len(list(place.memory.iterdir())) == 3
    after = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", "pass")
    assert "hermes: run directory: " in after.communicate(timeout=PATIENCE_S)[1]
    until(lambda: not list(place.memory.iterdir()), PATIENCE_S)
    _little_is_lost(place, column, job, "ours")


@pytest.mark.slow
def test_ranks_that_outlive_their_launcher_lose_no_more_when_they_are_killed_later(
    place: Place, column: Column
) -> None:
    (place.folder / "job.py").write_text(
        """
import os, time
pid = os.fork()
if pid == 0:
    import hermes.inside as capture
    told = os.open(f"ours-0-{os.getpid()}", os.O_CREAT | os.O_WRONLY)
    capture.start()
    while True:
        time.sleep(0.002)
        capture.step()
        os.write(told, b".")
open("launcher", "w").write(str(os.getpid()))
os.waitpid(pid, 0)
"""
    )
    watched = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, "job.py")
    told = lambda: [path for path in place.folder.glob("ours-0-*") if path.stat().st_size > 50]  # noqa: E731
    (path,) = until(told, PATIENCE_S)
    rank = int(path.name.split("-")[2])
    try:
        os.kill(int((place.folder / "launcher").read_text()), signal.SIGKILL)
        assert watched.wait(PATIENCE_S) == -9
        before = path.stat().st_size
        until(lambda: path.stat().st_size > before + 50)
    finally:
        os.kill(rank, signal.SIGKILL)
        stop(watched)
    after = begin(place, sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", "pass")
    after.communicate(timeout=PATIENCE_S)
    until(lambda: not list(place.memory.iterdir()), PATIENCE_S)
    (job,) = [job for job in place.jobs() if any(job.folder.glob("steps-*"))]
    _only_the_latest_are_lost(column(job.log_path(0), "step"), path.stat().st_size)
