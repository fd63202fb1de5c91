"""The suites `turns` and `kills`: the cost of watching on a quiet and a busy host, and records lost by kills."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.contest import Bench, Entrant, verdict
from benchmarks.inputs import MissingError
from benchmarks.page import table

_ROOT = Path(__file__).resolve().parent.parent
_TURNS = str(Path(__file__).with_name("capture_turns.py"))
_TOLD = "COST "
PROCESSES_A_CORE = 2
"""Number of other processes on a busy host for each core, which use it all the time."""
BUDGET_US = 10.0
"""Budget in us of CPU for each step; more would be one part in thirty of a step of 0.3 ms."""
KILL_MINUTES, KILL_SEEDS = 3, (1, 2)


def turns(bench: Bench) -> str:
    """Measure the hooks on and off in turn, in one process, on a quiet host and beside two processes a core."""
    try:
        import torch  # noqa: F401
    except ImportError as absent:
        raise MissingError("PyTorch is not installed (pip install --group torch)") from absent
    rows, lines = [], []
    for host, many in (("quiet", 0), (f"{PROCESSES_A_CORE} more processes a core", PROCESSES_A_CORE)):
        for steps, more in (("without a loader", ("--no-loader",)), ("with a `DataLoader`", ())):
            others = ("--beside", str(many * (os.cpu_count() or 1)))
            told = _told(bench, (sys.executable, _TURNS, *more, *others), f"{steps}, {host}")
            rows.append(
                (host, steps, f"{told['step_us']:.0f}", f"{told['added_us']:.1f}",
                 f"{told['added_lower_quartile_us']:.1f}", f"{told['added_mean_us']:.1f}")
            )  # fmt: skip
            if not many:
                budget = f"at most {BUDGET_US:.0f} us of CPU a step, {steps}"
                lines.append(
                    verdict(budget, holds=told["added_us"] <= BUDGET_US, measured=f"{told['added_us']:.1f} us")
                )
    header = ("host", "steps", "CPU us of a step", "added, median", "lower quartile", "mean")
    return "\n\n".join([table(header, rows), "\n".join(lines)])


def kills(bench: Bench) -> str:
    """Kill a rank, the watcher, the launcher, or the whole job at a random moment, in several rounds."""
    rows, wanting = [], 0
    for seed in KILL_SEEDS:
        program = (
            f"import runpy, sys; sys.path.insert(0, {str(_ROOT)!r}); "
            f"sys.argv[1:] = ['--minutes', '{KILL_MINUTES}', '--seed', '{seed}']; "
            "runpy.run_module('tests.inside.kill_pass', run_name='__main__')"
        )
        tail = _tail(bench, (sys.executable, "-c", program), f"kills, seed {seed}")
        rounds, parts, bad = _LAST.search(tail).groups()  # type: ignore[union-attr]
        wanting += int(bad)
        rows.append((str(seed), rounds, parts.replace("'", ""), bad))
    held = verdict("no step is lost but those of the last 10 ms, and no shared memory is left", holds=not wanting,
                   measured=f"{wanting} rounds found wanting")  # fmt: skip
    return "\n\n".join([table(("seed", "rounds", "what was killed", "found wanting"), rows), held])


_LAST = re.compile(r"(\d+) rounds \(\{(.*)\}\), (\d+) found wanting")


def _tail(bench: Bench, command: tuple[str, ...], title: str) -> str:
    bench.play(title, [Entrant(title=title, repeats=1, command=lambda _: command)])
    return str(bench.samples[-1]["tail"])


def _told(bench: Bench, command: tuple[str, ...], title: str) -> dict[str, Any]:
    tail = _tail(bench, command, title)
    found: dict[str, Any] = json.loads(next(line for line in tail.splitlines() if line.startswith(_TOLD))[len(_TOLD) :])
    return found
