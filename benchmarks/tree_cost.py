"""Measures what the time tree adds to the cost of an analysis, in two ways; each analysis is a process, in turns.

The first way compares with the last commit before the tree. The second way leaves the leaves out of today's analysis,
whose other parts stay. `python benchmarks/tree_cost.py ascend kineto` takes the large inputs of `run.py`; another path
is used as it is.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.inputs import Inputs, warm  # noqa: E402  (the script's folder alone is on the path)
from benchmarks.measure import Sample, measure  # noqa: E402

_BEFORE = "64a84ee9"
"""The last commit without a tree."""
_WAYS = ("before", "without", "with")
_RUN = """
import sys
import hermes
if sys.argv[2] == "without":
    from hermes.profiles.pipeline import analyze, rank_exchange
    from hermes.profiles.measure.leaves.leaves_of_rank import LeavesOfRank
    rank_exchange.leaves = lambda *_, **__: LeavesOfRank()
    analyze.job_tree = lambda *_, **__: ()
hermes.analyze(sys.argv[1], engine="serial")
"""
_HEADER = "| input | | wall s | CPU s | peak MB |\n| --- | --- | ---: | ---: | ---: |"


def _sources(work: Path) -> Path:
    """The package before the tree, compiled as pip would compile it."""
    folder = work / f"before-{_BEFORE}"
    if not folder.exists():
        folder.mkdir(parents=True)
        root = Path(__file__).resolve().parents[1]
        packed = subprocess.run(["git", "archive", _BEFORE, "src"], cwd=root, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed, check=True)
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(folder)], check=True)
    return folder / "src"


def _run(path: Path, way: str, work: Path) -> Sample:
    """One analysis on one process, from files, with an empty cache."""
    with tempfile.TemporaryDirectory(dir=work) as cache:
        command = [sys.executable, "-c", _RUN, str(path), way]
        environment = {"HERMES_CACHE_DIR": cache}
        if way == "before":
            environment["PYTHONPATH"] = str(_sources(work))
        made = measure(command, log=work / "tree_cost.log", environment=environment)
    if made.failed:
        sys.exit(f"the analysis {way} the tree failed: {made.tail}")
    return made


def _row(name: str, way: str, runs: Sequence[Sample]) -> str:
    middle = [
        statistics.median(values)
        for values in zip(*[(one.wall_ns, one.cpu_ns, one.peak_bytes) for one in runs], strict=True)
    ]
    return f"| {name} | {way} the tree | {middle[0] / 1e9:.2f} | {middle[1] / 1e9:.2f} | {middle[2] / 1e6:.0f} |"


def main() -> None:
    """Measure both ways on the given inputs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inputs", nargs="+", help="ascend, kineto, or a path")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache/hermes-bench")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    made = Inputs(folder=given.work / "inputs", given={}, say=lambda text: print(text, file=sys.stderr))
    print(_HEADER)
    for name in given.inputs:
        path = {"ascend": made.ascend, "kineto": made.kineto_ns}.get(name, lambda name=name: Path(name))()
        warm(path)
        runs: dict[str, list[Sample]] = {way: [] for way in _WAYS}
        for _ in range(given.repeats):
            for way, own in runs.items():
                own.append(_run(path, way, given.work))
        for way, own in runs.items():
            print(_row(name, way, own), flush=True)


if __name__ == "__main__":
    main()
