"""The loop in two minutes: a real training slows down, is noticed, captured and explained; the cure is measured.

python -m hermes.testing.live_demo FOLDER
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hermes.fleet.steps import Steps, read_steps
from hermes.live.rundir import jobs

STEPS = 900
_COMMAND = "from hermes.cli import command; command()"
_TRAINING = Path(__file__).with_name("live_training.py")


def main(arguments: Sequence[str]) -> int:
    """Run both trainings below the folder given; 1 when nothing was noticed, 2 when PyTorch is not installed."""
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write("this demo trains: pip install --group torch\n")
        return 2
    folder = Path(arguments[0]).absolute()
    _say(f"a training of {STEPS} steps, whose input becomes slow half way")
    slow = _train(folder / "slow")
    events = [json.loads(line) for line in (slow / "events.jsonl").read_text("utf-8").splitlines()]
    alarms = [event for event in events if event["kind"] == "alarm" and event["cause"] in ("data wait", "data work")]
    if not alarms:
        _say("nothing was noticed")
        return 1
    alarm = alarms[0]
    _say(f"noticed at step {alarm['step']}, cause: {alarm['cause']}; to do: {alarm['do']}")
    _say(f"predicted gain: at most {alarm['cost_ns'] / 1e6:.1f} ms a step")
    _say("the same training, with workers that read ahead")
    cured = _train(folder / "cured", "--cure", capture="--no-capture")
    before, after = (_typical(read_steps(job)[0]) for job in (slow, cured))
    _say(f"measured: {before / 1e6:.1f} -> {after / 1e6:.1f} ms a step, gain {(before - after) / 1e6:.1f} ms")
    return 0


def _train(folder: Path, *options: str, capture: str = "--preset=robust") -> Path:
    environment = {**os.environ, "HERMES_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    # A script's own folder comes first on its path, and ours has modules with names of the standard library.
    folder.mkdir(parents=True, exist_ok=True)
    script = shutil.copy(_TRAINING, folder / "training.py")
    training = (sys.executable, str(script), str(STEPS), *options)
    subprocess.run([sys.executable, "-c", _COMMAND, "run", capture, "--", *training], env=environment, check=True)
    *_, job = jobs(folder)
    return job.folder


def _typical(steps: Steps) -> float:
    """Median time of a step in the last third, without those that a capture slows."""
    rows = steps.part(2 * len(steps) // 3, len(steps))
    return float(np.median(rows.of("wall_ns")[~rows.flagged("profiled")]))


def _say(text: str) -> None:
    sys.stdout.write(f"demo: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
