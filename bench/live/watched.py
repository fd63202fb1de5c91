"""Runs a program under `hermes run`, captures it with `hermes profile`, and reads what `hermes analyze` says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.live.entries import Entry
from hermes.inside.wire.rundir import Job, jobs
from hermes.jobs.detect.read_step_logs import read_steps
from hermes.profiles.tree.leaf_kinds import PART

PATIENCE_S = 120.0
"""Seconds in which a program must make its first steps, a capture must end, and an analysis must be printed."""
_STEPS_BEFORE = 20
_SLICES, _SLICE_S = 4, 0.8
_LOOK_S = 0.05
_COMMAND = (sys.executable, "-c", "from hermes.cli import command; command()")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The first screen about a program: `leaf` is what can be won, empty where the headline names no loss of a tenth.

    `most` and `most_place` are what most of the time is, where the headline says that besides; else they are empty.
    `gain_ms` is the gain of the cure, `cost_ms` the step without it, both measured in turn; None if not measured.
    `low_ms` and `high_ms` are the range of the first action.
    """

    leaf: str = ""
    share: float = 0.0
    place: str = ""
    most: str = ""
    most_place: str = ""
    said: str = ""
    action: str = ""
    codes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    low_ms: float = 0.0
    high_ms: float = 0.0
    cost_ms: float | None = None
    gain_ms: float | None = None

    def leaf_is_right(self, entry: Entry) -> bool:
        """Whether the headline names a planted leaf."""
        return not {self.leaf, self.most}.isdisjoint({leaf.value for leaf in entry.leaves})

    def line_is_right(self, entry: Entry) -> bool:
        """Whether the headline names the planted function."""
        return any(
            place.endswith(f"`{function}`") for place in (self.place, self.most_place) for function in entry.functions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A program that runs: its job, and the number of its group of processes."""

    job: Job
    group: int


def ask(entry: Entry, folder: Path, *, gain: bool = False) -> Answer:
    """Run, capture and analyse a program in a new folder; with `gain`, run its cure in turn with it, too."""
    with running(entry, folder, cured=False) as planted:
        captured = said(("profile", planted.job.id, "--format", "json"), folder)
        measured = _in_turn(entry, folder, planted) if gain and not entry.healthy else (None, None)
    document = json.loads(said(("analyze", json.loads(captured)["folder"], "--format", "json"), folder))
    (folder / "report.json").write_text(json.dumps(document), "utf-8")
    return _read(document, *measured)


@contextlib.contextmanager
def running(entry: Entry, folder: Path, *, cured: bool) -> Iterator[Running]:
    """The job of a program that has made its first steps; its processes end with the block."""
    runs = folder / ("cured" if cured else "planted")
    (runs / "memory").mkdir(parents=True)
    with (runs / "log").open("wb") as log:
        process = subprocess.Popen(
            [*_COMMAND, "run", "--name", entry.name, "--no-capture", "--", sys.executable, *entry.command(cured=cured)],
            cwd=runs, stdout=log, stderr=log, env=_environment(folder, runs), start_new_session=True,
        )  # fmt: skip
        try:
            job = until(lambda: _begun(process, runs), f"{entry.name} makes no steps: {runs / 'log'}")
            yield Running(job=job, group=process.pid)
        finally:
            _end(process)


def _begun(process: subprocess.Popen[bytes], runs: Path) -> Job | None:
    if process.poll() is not None:
        raise RuntimeError(f"the program has ended: {runs / 'log'}")
    return next((job for job in jobs(runs) if len(_walls(job)) >= _STEPS_BEFORE), None)


def _walls(job: Job) -> list[float]:
    """Nanoseconds of each step so far that no capture made longer."""
    with contextlib.suppress(Exception):
        (steps, *_) = read_steps(job.folder)
        return [float(wall) for wall in steps.of("wall_ns")[~steps.flagged("profiled")]]
    return []


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if number != signal.SIGCONT:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
                return


def until(look: Callable[[], Any], failure: str) -> Any:
    """The first true result of `look`, which is called again and again. Raises `TimeoutError`."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(_LOOK_S)
    raise TimeoutError(failure)


def said(arguments: Sequence[str], folder: Path) -> str:
    """What a command of Hermes prints. Raises `RuntimeError` if the command fails."""
    done = subprocess.run(
        [*_COMMAND, *arguments], env=_environment(folder, folder / "planted"), capture_output=True, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"hermes {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def _environment(folder: Path, runs: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
    own = {"HERMES_RUN_DIR": runs, "HERMES_SHM_DIR": runs / "memory", "HERMES_CACHE_DIR": folder / "cache"}
    return kept | {name: str(path) for name, path in own.items()} | {"OMP_NUM_THREADS": "1"}


def _in_turn(entry: Entry, folder: Path, planted: Running) -> tuple[float, float]:
    """Milliseconds of a step, and how many of them the cure gives: both programs run in turn, one stopped at a time."""
    with running(entry, folder, cured=True) as cured:
        before = {one.group: len(_walls(one.job)) for one in (planted, cured)}
        for _ in range(_SLICES):
            for one, other in ((planted, cured), (cured, planted)):
                os.killpg(other.group, signal.SIGSTOP)
                os.killpg(one.group, signal.SIGCONT)
                time.sleep(_SLICE_S)
        os.killpg(planted.group, signal.SIGCONT)
        costs = [_mean_ms(one.job, before[one.group]) for one in (planted, cured)]
    return costs[0], costs[0] - costs[1]


def _mean_ms(job: Job, first: int) -> float:
    """Milliseconds of a step from step `first` on; a step in which the program was stopped takes a slice or more."""
    walls = until(lambda: len(found := _walls(job)) > first and found, f"{job.id} makes no more steps")
    own = [wall for wall in walls[first:] if wall < _SLICE_S * 1e9]
    return statistics.fmean(own or walls[first:]) / 1e6


def _read(document: Mapping[str, Any], cost_ms: float | None, gain_ms: float | None) -> Answer:
    verdict, actions = document["verdict"], document["plan"]["actions"]
    loss = most = verdict["message"]["arguments"]["said"]["message"]
    if two := loss["id"] == "verdict.two":
        loss, most = (loss["arguments"][part]["message"] for part in ("loss", "most"))
    named = loss["id"] == "verdict.loss" and verdict["share"] >= PART
    first = actions[0] if actions else None
    return Answer(
        leaf=verdict["leaf"] if named else "", share=verdict["share"] if named else 0.0,
        place=_place(loss) if named else "", most=verdict["most"] if two else "",
        most_place=_place(most) if two else "", said=verdict["message"]["text"],
        action=first["title"]["text"] if first else "", codes=tuple(first["codes"]) if first else (),
        lines=tuple(first["lines"]) if first else (), low_ms=first["gain"]["low"] if first else 0.0,
        high_ms=first["gain"]["high"] if first else 0.0, cost_ms=cost_ms, gain_ms=gain_ms,
    )  # fmt: skip


def _place(loss: Mapping[str, Any]) -> str:
    return (loss["arguments"].get("place") or {}).get("name") or ""
