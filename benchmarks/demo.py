"""Runs the live demo beside processes that use every core, and writes the results into docs/benchmarks.md.

    python benchmarks/demo.py [--runs N] [--beside N] [--python PYTHON]

A run is complete if Hermes noticed the slow input, captured the job and named the input, and if the measured gain of
the fix lies in the predicted range.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.machine import about, sentence  # noqa: E402
from benchmarks.page import replace_block, table  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks.md"
_BUSY = "while True: pass"
_PREDICTED = re.compile(r"predicted gain: ([\d.]+) to ([\d.]+) ms")
_MEASURED = re.compile(r"measured gain: +(-?[\d.]+) ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results of one run of the demo."""

    noticed: bool
    captured: bool
    named: bool
    low: float
    high: float
    gain: float
    own: bool

    @property
    def inside(self) -> bool:
        """Whether the measured gain lies in the predicted range."""
        return self.low <= self.gain <= self.high

    @property
    def whole(self) -> bool:
        """Whether all conditions of a complete run held."""
        return self.noticed and self.captured and self.named and self.inside and not self.own


@contextmanager
def beside(many: int) -> Iterator[None]:
    """Processes that want a core all the time."""
    children = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(many)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def run(python: str, folder: Path) -> Run:
    """One run of the demo."""
    call = [sys.executable, "-m", "hermes_testing.live_demo", str(folder / "live"), "--python", python]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    said = done.stdout
    predicted, measured = _PREDICTED.search(said), _MEASURED.search(said)
    findings = [line for line in said.splitlines() if "the capture says: " in line]
    return Run(
        noticed=bool(re.search(r"noticed at step \d+: data", said)),
        captured="captured into" in said,
        named=any("input" in line or "batch" in line for line in findings),
        low=float(predicted[1]) if predicted else 0.0,
        high=float(predicted[2]) if predicted else 0.0,
        gain=float(measured[1]) if measured else 0.0,
        own="inside/" in "".join(findings),
    )


def main() -> int:
    """Measure, print, write; 1 if a run was not complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="runs of the demo (10)")
    parser.add_argument("--beside", type=int, default=3, help="busy loops beside it (3)")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--dry", action="store_true", help="print only")
    given = parser.parse_args()
    runs = []
    with beside(given.beside):
        for _ in range(given.runs):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(run(given.python, Path(folder)))
            print(runs[-1], runs[-1].whole, flush=True)
    rows = [
        (str(number), _yes(one.noticed), _yes(one.captured), _yes(one.named), f"{one.low:.1f} to {one.high:.1f}",
         f"{one.gain:.1f}", _yes(one.whole))
        for number, one in enumerate(runs, start=1)
    ]  # fmt: skip
    header = ("run", "noticed", "captured", "named", "predicted ms a step", "measured ms a step", "whole")
    count = sum(one.whole for one in runs)
    text = f"{table(header, rows)}\n\n{count} of {len(runs)} runs beside {given.beside} busy loops were whole.\n\n"
    text += sentence(about())
    print(text)
    if not given.dry:
        PAGE.write_text(replace_block(PAGE.read_text("utf-8"), "demo", text), "utf-8")
    return 0 if count == len(runs) else 1


def _yes(held: bool) -> str:
    return "yes" if held else "**no**"


if __name__ == "__main__":
    sys.exit(main())
