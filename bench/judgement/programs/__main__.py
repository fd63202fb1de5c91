"""`python -m bench.judgement.programs`: captures programs as a user would, and checks whether the answers are right."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.judgement.programs.truth import PROGRAMS, SCRIPTS, Program

_HERMES = str(Path(sys.executable).parent / "hermes")
_START_S, _CAPTURE_S, _ANALYSIS_S = 240.0, 120.0, 120.0
_STEPS_BEFORE = 12
_STEP = re.compile(r"step (\d+), ([\d.]+) ms a step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answers on a program; `said` is empty where it could not be captured."""

    entry: Program
    said: str
    causes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    share: float = 0.0
    change: str = ""
    your_code: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the first cause or its line is right; of a healthy program, whether nothing much is claimed."""
        if self.entry.healthy:
            return bool(self.said) and not self.causes
        return bool({*self.causes} & {*self.entry.causes}) or _named(self.lines[:1], self.entry.functions)

    @property
    def line_shown(self) -> bool:
        """Whether the function stands among those that the terminal lists."""
        return _named((*self.lines, *self.your_code), self.entry.functions)


def _named(lines: Sequence[str], functions: Sequence[str]) -> bool:
    return any(f"`{function}`" in line for line in lines for function in functions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each program, and the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.judgement.programs", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this program; again for another")
    parser.add_argument(
        "--one-core", action="store_true",
        help="run each program on one core: other work on the machine then changes only how long all of it takes",
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, help="keep captures and reports in this folder")
    given = parser.parse_args(arguments)
    chosen = [one for one in PROGRAMS if not given.only or one.name in given.only]
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for entry in chosen:
            found.append(measure(entry, folder, one_core=given.one_core))
            sys.stdout.write(row(found[-1]) + "\n")
            sys.stdout.flush()
    planted = [one for one in found if not one.entry.healthy]
    healthy = [one for one in found if one.entry.healthy]
    sys.stdout.write(
        f"\nfirst cause or its line right: {sum(one.right for one in planted)} of {len(planted)}; "
        f"healthy without a claim: {sum(one.right for one in healthy)} of {len(healthy)}\n"
    )
    return 0


def measure(entry: Program, folder: Path, *, scripts: Path = SCRIPTS, one_core: bool = False) -> Outcome:
    """Run a program, capture it at the default level, and read what the report says first."""
    runs = folder / "runs"
    environment = {**os.environ, "HERMES_RUN_DIR": str(runs)}
    script = str(scripts / f"{entry.name}.py")
    alone = [sys.executable, script]
    alone = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *alone] if one_core else alone
    command = alone if entry.ranks == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(entry.ranks), script,
    ]  # fmt: skip
    with (folder / f"{entry.name}.log").open("wb") as log:
        job = subprocess.Popen(
            [_HERMES, "run", "--name", entry.name, "--no-capture", "--", *command],
            stdout=log, stderr=log, env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            capture = _captured(entry, environment, folder) if _runs(entry, environment) else ""
        finally:
            os.killpg(job.pid, signal.SIGTERM)
            try:
                job.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    return _read(entry, capture, folder) if capture else Outcome(entry=entry, said="")


def _runs(entry: Program, environment: dict[str, str]) -> bool:
    """Whether the job came so far that its first steps are behind it."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        time.sleep(1.0)
        said = _said([_HERMES, "profile", entry.name, "--status"], environment, 20)
        steps = [int(one) for one, _ in _STEP.findall(said)]
        if len(steps) == entry.ranks and min(steps) >= _STEPS_BEFORE:
            return True
    return False


def _captured(entry: Program, environment: dict[str, str], folder: Path) -> str:
    said = _said([_HERMES, "profile", entry.name], environment, _CAPTURE_S)
    (folder / f"{entry.name}.capture").write_text(said, "utf-8")
    return next((line.split(None, 1)[1] for line in said.splitlines() if line.startswith("capture:")), "")


def _said(command: list[str], environment: dict[str, str], limit_s: float) -> str:
    try:
        made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return made.stdout + made.stderr


def _read(entry: Program, capture: str, folder: Path) -> Outcome:
    environment = dict(os.environ)
    text = _said([_HERMES, "analyze", capture], environment, _ANALYSIS_S)
    (folder / f"{entry.name}.txt").write_text(text, "utf-8")
    try:
        document = json.loads(_said([_HERMES, "analyze", capture, "--format", "json"], environment, _ANALYSIS_S))
    except ValueError:
        return Outcome(entry=entry, said="")
    (folder / f"{entry.name}.json").write_text(json.dumps(document), "utf-8")
    actions = document["plan"]["actions"]
    first = (
        actions[0] if actions else {"fault": None, "codes": [], "lines": [], "gain": {"share_high": 0.0}, "after": ""}
    )
    shown = sorted(document["code"]["lines"], key=lambda one: -(one["own_ms"] + one["backward_ms"]))[:5]
    return Outcome(
        entry=entry, said=document["verdict"]["message"]["text"],
        causes=tuple(filter(None, (first["fault"], *first["codes"]))), lines=tuple(first["lines"]),
        share=first["gain"]["share_high"], change=first["after"] or "",
        your_code=tuple(f"{one['place']} `{one['function']}`" for one in shown),
    )  # fmt: skip


def row(one: Outcome) -> str:
    """A line of the table."""
    answer = f"{'/'.join(one.causes) or 'nothing'}{f' at {one.lines[0]}' if one.lines else ''}"
    change = one.change.replace("\n", "; ")[:60]
    return (
        f"| `{one.entry.name}` | {one.entry.mistake or 'none'} | {answer if one.said else 'not captured'}, "
        f"{one.share:.0%} | {'yes' if one.right else '**no**'} | {'yes' if one.line_shown else '-'} | {change} |"
    )


if __name__ == "__main__":
    sys.exit(main())
