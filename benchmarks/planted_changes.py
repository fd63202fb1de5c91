"""Plants ten changes in real trainings, and writes each capture's first sentence into docs/benchmarks.md.

    python benchmarks/planted_changes.py [--only CHANGE] [--python PYTHON]

The expected words were written down before the first run: words of `SAYS` in the first sentence of the finding.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.changing import CHANGES, SLOW_RANK  # noqa: E402
from benchmarks.demo import beside  # noqa: E402
from benchmarks.machine import about, sentence  # noqa: E402
from benchmarks.page import replace_block, table  # noqa: E402
from hermes.inside.wire.rundir import jobs  # noqa: E402
from hermes_testing.live_demo import events_of, wait_for_watcher  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
STEPS, RANKS = 1000, 3
SAYS = {
    "input": r"waiting for input|making batches",
    "contention": r"waiting for a core",
    "compilation": r"compil",
    "slower-rank": rf"rank {SLOW_RANK}\b",
    "allocation": r"memory|alloc",
    "longer-sequence": r"tokens in a step",
    "synchronisation": r"lock|synchron",
    "garbage-collection": r"garbage collection",
    "slow-disk": r"file|disk|fsync",
    "foreign-process": r"waiting for a core",
}
_COMMAND = "from hermes.cli import command; command()"


def train(python: str, change: str, folder: Path) -> list[str]:
    """Run the training under `hermes run`; returns the findings of its captures, in order."""
    world = RANKS if change == "slower-rank" else 1
    program = (python, "-W", "ignore", str(ROOT / "benchmarks" / "changing.py"), change, str(STEPS), str(folder))
    if world > 1:
        program = (python, "-m", "torch.distributed.run", f"--nproc-per-node={world}", *program[3:])
    environment = {**os.environ, "HERMES_RUN_DIR": str(folder / "jobs"), "OMP_NUM_THREADS": "1"}
    call = (sys.executable, "-c", _COMMAND, "run", "--collectives", "--", *program)
    with (folder / "said").open("wb") as said, subprocess.Popen(call, env=environment, stdout=said, stderr=said) as job:
        while job.poll() is None and not (folder / "changed").exists():
            time.sleep(0.05)
        many = 3 * (os.cpu_count() or 1) if change == "foreign-process" else 0
        with beside(many):
            job.wait()
    (made,) = jobs(folder / "jobs")
    wait_for_watcher(made.folder)
    return [event["message"]["text"] for event in events_of(made.folder) if event["kind"] == "finding"]


def first_sentence(finding: str) -> str:
    """The first sentence of a finding."""
    return re.split(r"\. (?=[A-Z0-9])", finding, maxsplit=1)[0]


def main() -> int:
    """Plant, print, write; 1 if fewer than eight first sentences name the change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CHANGES, help="one change, and print all it says")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    rows, count = [], 0
    for change in (given.only,) if given.only else CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            findings = train(given.python, change, Path(folder))
        said = [first_sentence(one) for one in findings]
        # Of several captures the one made for the change counts: earlier captures were made for noise.
        right = [one for one in said if re.search(SAYS[change], one)]
        count += bool(right)
        rows.append((change.replace("-", " "), (right or said or ["no capture"])[0], "yes" if right else "**no**"))
        print(rows[-1], *findings, sep="\n  ", flush=True)
    text = f"{table(('change', 'first sentence of the capture', 'says it'), rows)}\n\n"
    text += f"{count} of {len(rows)} say what changed.\n\n{sentence(about())}"
    print(text)
    if not given.dry and not given.only:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "changes", text), "utf-8")
    return 0 if count >= len(rows) - 2 else 1


if __name__ == "__main__":
    sys.exit(main())
