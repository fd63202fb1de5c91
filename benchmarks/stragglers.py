"""Plants a slow rank in real jobs of eight ranks on gloo, and writes which rank Hermes names into docs/benchmarks.md.

    python benchmarks/stragglers.py [--even N] [--steps N] [--python PYTHON]

In one job of each family each rank is the slow one in turn. A rank counts as named if a watcher names it while it is
slow, and as blamed wrongly if another rank is named. Ranks take 20 ms a step that differ by a tenth, the slow rank
twice that.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.machine import about, sentence  # noqa: E402
from benchmarks.page import replace_block, table  # noqa: E402
from benchmarks.straggling import order  # noqa: E402
from hermes.inside.wire.rundir import jobs  # noqa: E402
from hermes.jobs.detect.job_alarms import Notice, replay  # noqa: E402
from hermes.jobs.detect.read_step_logs import Steps, read_steps  # noqa: E402
from hermes.jobs.detect.robust_detector import Robust  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
WORLD, MEAN_MS = 8, 20.0
FAMILIES = ("computes", "sleeps", "reads", "collects")
_SLACK = 40
"""Steps after a stretch in which its rank may still be named: ranks are compared every 20 steps, twice."""


def train(python: str, folder: Path, family: str, steps: int, world: int = WORLD) -> list[Steps]:
    """Run a job, and return its step logs."""
    store = folder / "store"
    environment = {
        **os.environ, "HERMES_RUN_DIR": str(folder / "jobs"), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
    }  # fmt: skip
    program = str(ROOT / "benchmarks" / "straggling.py")
    children = [
        subprocess.Popen(
            [python, "-W", "ignore", program, str(folder), str(store), str(rank), str(world), family, str(steps),
             str(MEAN_MS)],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(world)
    ]  # fmt: skip
    if any(child.wait(600) for child in children):
        raise SystemExit(f"a rank of the job {family} failed")
    (job,) = jobs(folder / "jobs")
    return read_steps(job.folder)


def named(notices: Sequence[Notice], steps: int, world: int = WORLD) -> tuple[int, int]:
    """How many ranks were named while they were slow, and how often another rank was named."""
    right: set[int] = set()
    wrong = 0
    for notice in notices:
        if notice.kind == "straggler":
            rank, at = notice.ranks[0], order(world).index(notice.ranks[0]) * steps
            if at <= notice.step < at + steps + _SLACK:
                right.add(rank)
            else:
                wrong += 1
    return len(right), wrong


def main() -> int:
    """Measure, print, write; 1 if fewer than seven of eight ranks are named in a family, or one in an even job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--even", type=int, default=10, help="jobs in which no rank is slow (10)")
    parser.add_argument("--steps", type=int, default=160, help="steps for which a rank is slow (160)")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    rows, good = [], True
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            found = named(replay(train(given.python, Path(folder), family, given.steps), Robust), given.steps)
        rows.append((f"one rank {family} longer", f"{found[0]} of {WORLD}", str(found[1])))
        good = good and found[0] >= WORLD - 1 and not found[1]
        print(rows[-1], flush=True)
    blamed = 0
    for _ in range(given.even):
        with tempfile.TemporaryDirectory() as folder:
            notices = replay(train(given.python, Path(folder), "even", 2 * given.steps), Robust)
        blamed += any(notice.kind == "straggler" for notice in notices)
        print("even", [notice.ranks for notice in notices if notice.kind == "straggler"], flush=True)
    rows.append((f"{given.even} even jobs", "", str(blamed)))
    text = f"{table(('job', 'named', 'blamed wrongly'), rows)}\n\n{sentence(about())}"
    print(text)
    if not given.dry:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "stragglers", text), "utf-8")
    return 0 if good and not blamed else 1


if __name__ == "__main__":
    sys.exit(main())
