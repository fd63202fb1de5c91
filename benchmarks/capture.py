"""The suite `capture`: measures the cost of watching a step, in pairs of runs, and the cost of captures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contest import Bench, Entrant, verdict
from benchmarks.inputs import MissingError
from benchmarks.page import table

_SCRIPT = str(Path(__file__).with_name("capture_cost.py"))
_TOLD = "COST "
_PAIRS = 5
_SHORT = ("8000", "32")
_LONG = ("120", "768")
BUDGET_NS, BUDGET_SHARE, BUDGET_BYTES, BUDGET_IMPORT_NS = 15_000, 0.005, 30_000_000, 50_000_000


def capture(bench: Bench) -> str:
    """Run the training unwatched and watched in turn; then once for each level of a capture."""
    try:
        import torch  # noqa: F401
    except ImportError as absent:
        raise MissingError("PyTorch is not installed (pip install --group torch)") from absent
    pairs = [(_run(bench, "bare", *_SHORT), _run(bench, "monitor", *_SHORT)) for _ in range(_PAIRS)]
    added = median(watched["cpu_ns"] - bare["cpu_ns"] for bare, watched in pairs)
    memory = median(watched["peak"] - bare["peak"] for bare, watched in pairs)
    joined = median(watched["import_ns"] + watched["start_ns"] for _, watched in pairs)
    step = median(bare["cpu_ns"] for bare, _ in pairs)
    rows = [
        ("bare", f"{step / 1e3:.1f}", ""),
        ("watched", f"{median(watched['cpu_ns'] for _, watched in pairs) / 1e3:.1f}", f"{added / 1e3:.1f}"),
    ]
    lines = [
        verdict("at most 15 us of CPU a step", holds=added <= BUDGET_NS, measured=f"{added / 1e3:.1f} us"),
        verdict(
            "at most 0.5 % of a step of 10 ms", holds=added <= BUDGET_SHARE * 1e7, measured=f"{added / 1e5:.2f} %"
        ),
        verdict("under 30 MB", holds=memory < BUDGET_BYTES, measured=f"{memory / 1e6:.1f} MB"),
        verdict(
            "importing and starting under 50 ms of CPU", holds=joined < BUDGET_IMPORT_NS,
            measured=f"{joined / 1e6:.1f} ms",
        ),
    ]  # fmt: skip
    cost = table(("run", "CPU us of a step, median", "added, median of pairs"), rows)
    return "\n\n".join([cost, "\n".join(lines), _levels(bench)])


def _levels(bench: Bench) -> str:
    """Capture three steps at each level, to measure torch.profiler's own cost."""
    bare = _run(bench, "bare", *_LONG)
    rows = []
    for level in ("light", "standard", "full"):
        told = _run(bench, level, *_LONG)
        rows.append(
            (level, f"{bare['cpu_ns'] / 1e6:.1f}", f"{told['inside_ns'] / 1e6:.1f}", f"{told['held_ns'] / 1e6:.1f}",
             f"{told['bytes'] / 1e6:.2f}")
        )  # fmt: skip
    header = ("capture of 3 steps", "CPU ms of a step", "of a captured one", "of the step that ends it", "MB")
    return table(header, rows)


def _run(bench: Bench, *arguments: str) -> dict[str, Any]:
    command = (sys.executable, _SCRIPT, *arguments)
    bench.play(f"capture {arguments[0]}", [Entrant(title=arguments[0], repeats=1, command=lambda _: command)])
    tail = str(bench.samples[-1]["tail"])
    told: dict[str, Any] = json.loads(next(line for line in tail.splitlines() if line.startswith(_TOLD))[len(_TOLD) :])
    return told
