"""Writes run directories of past jobs: real logs with the steps that a test defines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.jobs.live_job import record

from hermes.inside.wire import process
from hermes.inside.wire.recovery import save_and_remove
from hermes.inside.wire.rundir import Job, enter
from hermes.inside.wire.steplog import LogWriter

MS, S, DAY = 10**6, 10**9, 86_400 * 10**9


def drawn_job(
    root: Path, name: str, begin_ns: int, walls_ms: Iterable[float], *, ranks: int = 1, host: str = "node1",
    launch: str = "", **columns: int,
) -> Job:  # fmt: skip
    """A job that has ended, with step logs: each rank took steps of these lengths, one after the other."""
    environment = {"HERMES_SHM_DIR": str(root.parent / "shm"), "HERMES_RUN_DIR": str(root)}
    (root.parent / "shm").mkdir(parents=True, exist_ok=True)
    job = enter(root, name, command=("python", "train.py"), owner=process.own_identity(), environment=environment)
    walls = list(walls_ms)
    for rank in range(ranks):
        log = LogWriter(job.log_path(rank), {"rank": rank, "world": ranks, "host": host, "launch": launch})
        end, rows = begin_ns, []
        for number, wall in enumerate(walls, 1):
            end += round(wall * MS)
            rows.append(record(number, step=number, wall_ns=round(wall * MS), end_ns=end, **columns))
        log.append(b"".join(rows))
        log.close()
    save_and_remove(job)
    return job
