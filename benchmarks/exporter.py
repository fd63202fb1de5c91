"""Measures the exporter's memory and CPU time beside a job, over two minutes with a scrape every 15 seconds.

`python -m benchmarks.exporter [RANKS] [STEP_MS]`; without arguments eight ranks whose steps take 100 ms.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from hermes.inside.wire import process
from hermes.inside.wire.control import Control
from hermes.inside.wire.recovery import open_ring, save_and_remove
from hermes.inside.wire.rundir import enter
from hermes.inside.wire.step_record import FIELDS, pack

SECONDS, SCRAPE_S = 120, 15
BEFORE = 2500
"""Steps that the job has done before: its rings are full."""


def main(ranks: int, step_ms: float) -> None:
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        (base / "shm").mkdir()
        environment = {"HERMES_SHM_DIR": str(base / "shm"), "HERMES_RUN_DIR": str(base / "jobs")}
        job = enter(
            base / "jobs", "train-1-2", command=("train",), owner=process.own_identity(), environment=environment
        )
        control = Control.attach(job.segment, job=job.id)
        rings = [open_ring(job, rank, {"rank": rank, "world": ranks}) for rank in range(ranks)]
        for rank in range(ranks):
            control.claim(rank)
        ended = threading.Event()

        def train() -> None:
            number = 0
            while not ended.is_set():
                number += 1
                wall = int((step_ms + number % 7 / 10) * 1e6)
                values = dict.fromkeys(FIELDS, wall // 10) | {
                    "index": number, "step": number, "wall_ns": wall, "end_ns": time.time_ns(), "flags": 0,
                }  # fmt: skip
                row = pack(*[values[name] for name in FIELDS if name != "check"])
                for ring in rings:
                    ring.add(row)
                if number > BEFORE:
                    time.sleep(step_ms / 1e3)

        training = threading.Thread(target=train)
        training.start()
        try:
            time.sleep(5)
            _measure({**os.environ, **environment})
        finally:
            ended.set()
            training.join()
            for ring in rings:
                ring.close()
            control.close()
            save_and_remove(job)


def _measure(environment: dict[str, str]) -> None:
    words = [str(Path(sys.executable).with_name("hermes")), "exporter", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        url = started.stdout.readline().split()[-1]
        time.sleep(5)
        before, rows = _ticks(started.pid), 0
        for _ in range(SECONDS // SCRAPE_S):
            time.sleep(SCRAPE_S)
            with urllib.request.urlopen(url, timeout=60) as answer:
                rows = len(answer.read().splitlines())
        share = (_ticks(started.pid) - before) / os.sysconf("SC_CLK_TCK") / SECONDS
        peak = next(line for line in Path(f"/proc/{started.pid}/status").read_text().splitlines() if "VmHWM" in line)
        print(f"{int(peak.split()[1]) * 1024 / 1e6:.1f} MB at most, {share:.2%} of a core, {rows} lines an answer")
        started.terminate()


def _ticks(pid: int) -> int:
    with contextlib.suppress(OSError):
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(told[11]) + int(told[12])
    return 0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8, float(sys.argv[2]) if len(sys.argv) > 2 else 100.0)
