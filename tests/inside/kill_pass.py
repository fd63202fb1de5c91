"""Kills ranks, watchers and whole jobs at random moments, for a given time, and searches for lost records.

    python -m tests.inside.kill_pass --minutes 3 --seed 1

Logs are small, so that some are set aside while processes die; captures are requested meanwhile. After each round the
next run must find no shared memory, and only records of the step under way and of the 10 ms before it may be lost. The
script prints what it did.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.inside.launch.conftest import beside

from hermes.inside.wire.ring import LATE_NS
from hermes.inside.wire.rundir import Job, jobs, shared_memory
from hermes.inside.wire.step_record import AT
from hermes.inside.wire.steplog import read_rows

HERMES = "from hermes.cli import command; command()"
VICTIMS = ("rank", "watcher", "launcher", "ranks", "all")
# A launcher of two ranks; each rank writes a byte for each step that has ended.
_JOB = """
import os, sys, time
import hermes.inside.wire.steplog as steplog
steplog.LogWriter.__init__.__defaults__ = (4096 + 700 * 256,)
children = []
for rank in range(2):
    pid = os.fork()
    if pid == 0:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        import hermes.inside as capture
        import hermes.inside.monitor.at_step_end as monitor
        monitor._FLUSH_RECORDS = 20
        told = os.open(f"told-{rank}-{os.getpid()}", os.O_CREAT | os.O_WRONLY)
        capture.start()
        while True:
            time.sleep(0.0005)
            capture.step()
            os.write(told, b".")
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""


def main() -> int:
    """Run rounds until the time is over; 1 when a round found a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    dice, done, bad = random.Random(given.seed), Counter[str](), 0
    end = time.monotonic() + given.minutes * 60
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            victim = dice.choice(VICTIMS)
            found = one_round(Path(folder), victim, dice)
        done[victim] += 1
        for what in found:
            bad += 1
            sys.stdout.write(f"round {sum(done.values())}, {victim} killed: {what}\n")
    sys.stdout.write(f"{sum(done.values())} rounds ({dict(done)}), {bad} found wanting\n")
    return 1 if bad else 0


def one_round(folder: Path, victim: str, dice: random.Random) -> list[str]:
    """Start a job, kill that part of it at a random moment, then the rest; returns the faults found."""
    (folder / "job.py").write_text(_JOB)
    (folder / "shm").mkdir()
    source = str(Path(__file__).resolve().parents[2] / "src")
    own = {"HERMES_RUN_DIR": str(folder / "jobs"), "HERMES_SHM_DIR": str(folder / "shm"), "PYTHONPATH": source}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "RANK", "WORLD"))}
    environment = kept | own
    job = subprocess.Popen(
        [sys.executable, "-c", HERMES, "run", "--preset", "ksigma", "--", sys.executable, "job.py"], cwd=folder,
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    asker = None
    try:
        ranks = _ranks(folder)
        if dice.random() < 0.5:
            asker = subprocess.Popen(
                [sys.executable, "-c", HERMES, "profile", "--steps", "50", "--level", "light"], cwd=folder,
                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        time.sleep(dice.random() * 2.5)
        launcher = _parent(ranks[0])
        watchers = [*beside("hermes.inside.launch.companion", folder), *beside("hermes.jobs.watcher_process", folder)]
        meant = {
            "rank": [dice.choice(ranks)], "watcher": watchers, "launcher": [launcher], "ranks": ranks,
            "all": [*watchers, launcher, *ranks],
        }[victim]  # fmt: skip
        dice.shuffle(meant)
        found = _kill(folder, meant, ranks)
        for pid in [*ranks, launcher]:
            _end(pid)
    finally:
        _end(job.pid)
        job.wait()
        if asker is not None:
            asker.kill()
            asker.wait()
    return found + _looked_over(folder, environment)


def _kill(folder: Path, meant: list[int], ranks: list[int]) -> list[str]:
    """Kill the processes `meant`; returns a fault if the remaining ranks do not go on."""
    for pid in meant:
        _end(pid)
    left = [pid for pid in ranks if pid not in meant]
    before = {pid: _told(folder, pid) for pid in left}
    time.sleep(0.3)
    end = time.monotonic() + 20
    while any(_told(folder, pid) <= before[pid] for pid in left):
        if time.monotonic() > end:
            return ["a rank that was not killed stands still"]
        time.sleep(0.05)
    return []


def _looked_over(folder: Path, environment: dict[str, str]) -> list[str]:
    """Faults in the next run's start, and in logs that lack ended steps."""
    run = [sys.executable, "-c", HERMES, "run", "--", sys.executable, "-c", "pass"]
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = [] if done.returncode == 0 else [f"the next run ended with {done.returncode}: {done.stderr[-300:]}"]
    end = time.monotonic() + 60
    # The memory is cleaned beside the next run, which is over at once.
    while list(shared_memory(environment).iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    found += [f"{path.name} is left" for path in shared_memory(environment).iterdir()]
    (job,) = [job for job in jobs(folder / "jobs") if any(job.folder.glob("steps-*"))] or [None]
    if job is None:
        return [*found, "there is no log"]
    return found + [text for rank in (0, 1) if (text := _lost(folder, job, rank))]


def _lost(folder: Path, job: Job, rank: int) -> str:
    (told,) = folder.glob(f"told-{rank}-*")
    steps, log = told.stat().st_size, job.log_path(rank)
    files = [file for file in (log.with_name(f"{log.name}.1"), log) if file.exists() and file.stat().st_size]
    rows = [row[AT["step"]] if row else None for file in files for row in read_rows(file)]
    last = rows[-1] if rows else 0
    if None in rows or rows != list(range(rows[0] if rows else 1, (last or 0) + 1)):
        return f"rank {rank} has a gap or a damaged record among {len(rows)}"
    # The first step has no record, the step under way may count, and each takes half a millisecond.
    return (
        ""
        if steps - 1 - LATE_NS // 500_000 <= (last or 0) <= steps
        else f"rank {rank} ended {steps} steps and has records up to {last}"
    )


def _ranks(folder: Path) -> list[int]:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = sorted(folder.glob("told-*"))
        if len(found) == 2 and all(path.stat().st_size > 20 for path in found):
            return [int(path.name.split("-")[2]) for path in found]
        time.sleep(0.02)
    raise TimeoutError("no rank stepped")


def _told(folder: Path, pid: int) -> int:
    return next(folder.glob(f"told-*-{pid}")).stat().st_size


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
