"""The loop in two minutes: a real training slows down, is noticed, captured and explained; the cure is measured.

    python -m hermes_testing.live_demo FOLDER [--python PYTHON]

PYTHON, this one without it, has PyTorch, and need not have Hermes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hermes.inside.wire.rundir import jobs
from hermes.jobs.detect.read_step_logs import Steps, read_steps

STEPS = 900
_PATIENCE_S = 90
_COMMAND = "from hermes.cli import command; command()"
_TRAINING = Path(__file__).with_name("live_training.py")
_HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


def main(arguments: Sequence[str]) -> int:
    """Run both trainings below the folder given; 1 when nothing was noticed, 2 when PyTorch is not installed."""
    folder = Path(arguments[0]).absolute()
    python = arguments[2] if arguments[1:2] == ["--python"] else sys.executable
    if subprocess.run([python, "-c", _HAS_TORCH], check=False).returncode:
        sys.stderr.write("this demo trains: pip install --group torch\n")
        return 2
    slow, events, alarms = _slow_training(python, folder)
    if not alarms:
        return 1
    alarm = max(alarms, key=lambda event: int(event["cost_ns"]))
    _say(f"noticed at step {alarm['step']}: {alarm['cause']}, {alarm['cost_ns'] / 1e6:.1f} ms a step")
    for event in events:
        _tell(event)
    _say(f"cure: {alarm['do']['text']}")
    _say("the same training once more, with workers that read ahead")
    cured = _train(python, folder / "cured", "--cure", watch="--no-watch")
    before, after = (_typical(read_steps(job)[0]) for job in (slow, cured))
    low, high = _predicted(events, max(int(event["cost_ns"]) for event in alarms) / 1e6)
    noise = _spread(read_steps(slow)[0]) / 1e6
    least, most = max(low - noise, 0.0), high + noise
    _say(f"predicted gain: {least:.1f} to {most:.1f} ms a step; steps vary by {noise:.1f} ms")
    _say(f"measured gain:  {(before - after) / 1e6:.1f} ms a step ({before / 1e6:.1f} -> {after / 1e6:.1f} ms)")
    return 0


def _slow_training(python: str, folder: Path) -> tuple[Path, list[dict[str, Any]], list[dict[str, Any]]]:
    """The run directory of the training, what was captured after its alarms, and these; none when none came."""
    _say(f"a training of {STEPS} steps, whose input becomes slow at step {STEPS // 2}")
    slow = _train(python, folder / "slow")
    wait_for_watcher(slow)
    events, alarms = _noticed(slow)
    return slow, [event for event in events if alarms and event["time_ns"] > alarms[0]["time_ns"]], alarms


def _predicted(events: Sequence[Mapping[str, Any]], grown: float) -> tuple[float, float]:
    """Milliseconds a step: the least that the last capture's finding about the input predicts, and the most.

    That is what it predicts at most, or how much longer the steps waited for input, in the many steps of the log.
    """
    reports = [Path(event["report"]).with_suffix(".json") for event in events if event["kind"] == "finding"]
    for report in reversed(reports):
        with contextlib.suppress(OSError, ValueError):
            for finding in json.loads(report.read_bytes())["findings"]:
                if str(finding["leaf"]).startswith("input") and finding["gain"]:
                    return float(finding["gain"]["low"]), max(float(finding["gain"]["high"]), grown)
    return 0.0, grown


def wait_for_watcher(job: Path) -> None:
    """Wait until the watcher has let go of the job: the job's own end does not wait for reports of its captures."""
    with contextlib.suppress(OSError), (job / ".watcher").open("rb") as file:
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return
            time.sleep(0.1)


def events_of(job: Path) -> list[dict[str, Any]]:
    """What the watcher noted."""
    log = job / "events.jsonl"
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


def _noticed(job: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the watcher noted, and its alarms that name the input."""
    events = events_of(job)
    return events, [one for one in events if one["kind"] == "alarm" and one["cause"] in ("data wait", "data work")]


def _tell(event: Mapping[str, Any]) -> None:
    if event["kind"] == "capture":
        _say(f"captured into {event['folder']}")
    elif event["kind"] == "finding":
        _say(f"the capture says: {event['message']['text']}")


def _train(python: str, folder: Path, *options: str, watch: str = "--preset=robust") -> Path:
    environment = {**os.environ, "HERMES_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    # A script's own folder comes first on its path, and ours has modules with names of the standard library.
    folder.mkdir(parents=True, exist_ok=True)
    script = shutil.copy(_TRAINING, folder / "training.py")
    # More workers than cores: they sleep. torch would warn.
    training = (python, "-W", "ignore", str(script), str(STEPS), *options)
    subprocess.run([sys.executable, "-c", _COMMAND, "run", watch, "--", *training], env=environment, check=True)
    *_, job = jobs(folder)
    return job.folder


def _typical(steps: Steps) -> float:
    """Median time of a step in the last third, without those that a capture slows."""
    rows = steps.part(2 * len(steps) // 3, len(steps))
    return float(np.median(rows.of("wall_ns")[~rows.flagged("profiled")]))


def _spread(steps: Steps) -> float:
    """By how much the middle half of these steps differ: what other work on the machine makes uncertain."""
    rows = steps.part(2 * len(steps) // 3, len(steps))
    first, last = np.quantile(rows.of("wall_ns")[~rows.flagged("profiled")], (0.25, 0.75))
    return float(last - first)


def _say(text: str) -> None:
    sys.stdout.write(f"demo: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
